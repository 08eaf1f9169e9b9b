"""What a fine-tuned model answers to some texts, for the check of an export."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.data.examples.example import (
    ChoiceExample,
    SpanExample,
    TextExample,
    WordsExample,
)
from albert_tf.tasks.finetuning.prediction import Predictor

Arrays = dict[str, np.ndarray]


def answers_of(
    source: str | os.PathLike[str],
    texts: Sequence[str],
    settings: Mapping[str, Any],
) -> Arrays:
    """Returns inputs of a task's export, and outputs that it has to give.

    Of labels and options the probabilities are compared: which one is the most
    likely hangs on rounding where two are alike.

    Args:
      source: see `find_model`.
      texts: what examples of the task's kind are made of.
      settings: of the export.

    Returns:
      Name -> array with a row an example; strings are bytes.

    Raises:
      InputError: there is no fine-tuned model.
    """
    predictor = Predictor([source], settings)
    return _ANSWERS[predictor.kind.description.kind](predictor, texts)


def as_strings(texts: Any) -> np.ndarray:
    """Returns an array of texts in UTF-8, as TensorFlow has them."""
    return np.char.encode(np.array(texts, str), "utf-8")


def _to_texts(predictor: Predictor, texts: Sequence[str]) -> Arrays:
    description = predictor.kind.description
    columns = {"text": texts}
    if description.source["pair"] is not None:
        columns["text_pair"] = texts[::-1]
    examples = [
        TextExample(
            id=str(number), place="", text=text, pair=pair[0] if pair else None
        )
        for number, (text, *pair) in enumerate(
            zip(*columns.values(), strict=True)
        )
    ]
    output = "probabilities" if description.kind == "classes" else "value"
    return {
        **{name: as_strings(column) for name, column in columns.items()},
        output: np.array(predictor(examples).predictions),
    }


def _to_choices(predictor: Predictor, texts: Sequence[str]) -> Arrays:
    examples = [
        ChoiceExample(
            id=str(number),
            place="",
            passage=text,
            question=texts[number - 1],
            options=(texts[number - 2], texts[number - 3], "_"),
        )
        for number, text in enumerate(texts)
    ]
    return {
        "context": as_strings([x.passage for x in examples]),
        "question": as_strings([x.question for x in examples]),
        "options": as_strings([x.options for x in examples]),
        "probabilities": np.array(predictor(examples).predictions),
    }


def _to_words(predictor: Predictor, texts: Sequence[str]) -> Arrays:
    examples = [
        WordsExample(id=str(number), place="", words=tuple(text.split()))
        for number, text in enumerate(texts)
    ]
    longest = max(len(x.words) for x in examples)
    return {
        "text": as_strings(texts),
        "probabilities": np.array(
            [
                np.pad(words, [(0, longest - len(words)), (0, 0)])
                for words in predictor(examples).predictions
            ]
        ),
    }


def _to_questions(predictor: Predictor, texts: Sequence[str]) -> Arrays:
    contexts = [text for text in texts if text]
    examples = [
        SpanExample(
            id=str(number),
            place="",
            question=contexts[number - 1],
            context=text,
        )
        for number, text in enumerate(contexts)
    ]
    predictions = predictor(examples).predictions
    answers = [prediction.answers for prediction in predictions]
    threshold = predictor.kind.null_threshold
    arrays = {
        "question": as_strings([x.question for x in examples]),
        "context": as_strings(contexts),
        "answer": as_strings([x.text(threshold) for x in answers]),
        "probability": np.array([x.best[0].probability for x in answers]),
    }
    if answers[0].null_score is not None:
        arrays["null_odds"] = np.array([x.null_score for x in answers])
    return arrays


_ANSWERS = {
    "classes": _to_texts,
    "number": _to_texts,
    "choices": _to_choices,
    "spans": _to_questions,
    "words": _to_words,
}
