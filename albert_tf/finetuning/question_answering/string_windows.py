"""Windows of questions and contexts given as strings, for Keras's `fit`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError, shown
from albert_tf.finetuning.fit_texts import as_strings
from albert_tf.finetuning.question_answering.examples import (
    Answer,
    QuestionAnsweringExample,
)
from albert_tf.finetuning.question_answering.features import (
    END_POSITIONS,
    IS_IMPOSSIBLE,
    P_MASK,
    START_POSITIONS,
    window_batches,
    window_features,
)
from albert_tf.finetuning.question_answering.settings import (
    WindowSettings,
    least_length,
)
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.packing import ENCODER_INPUTS

# Output of the model -> its label, by head.
_LABELS = {
    "v1": {"start_logits": START_POSITIONS, "end_logits": END_POSITIONS},
    "joint": {
        "start_log_probs": START_POSITIONS,
        "end_log_probs": END_POSITIONS,
        "is_impossible_logits": IS_IMPOSSIBLE,
    },
}


def window_arrays(
    tokenizer: Tokenizer,
    settings: Mapping[str, Any],
    texts: Sequence[Sequence[str]],
    y: tuple[Any, Any] | None,
    sample_weight: Any,
    *,
    multiple: int = 1,
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray] | None, Any]:
    """Returns inputs, targets by output and weights of windows.

    Args:
      texts: questions and contexts.
      y: answers and their first characters in the contexts; None for windows
        without targets.
      sample_weight: weights of the questions, or None.
      multiple: the length, at most `max_seq_length`, is otherwise rounded up
        to a multiple of it. It is at least `least_length(settings)`.

    Raises:
      InputError: if an answer is not where it is said to be.
    """
    head, labelled = settings["head"], y is not None
    batches = list(
        window_batches(
            _examples(texts, y, head),
            tokenizer,
            WindowSettings.of_task(settings),
            labelled=labelled,
        )
    )
    features = window_features(
        batches, pad_id=tokenizer.pad_id, head=head, labelled=labelled
    )
    longest = int(features.lengths.max(initial=0))
    length = min(longest + -longest % multiple, settings["max_seq_length"])
    length = max(least_length(settings), length)
    batch = features.pad(range(len(features)), length=length)
    if sample_weight is not None:
        counts = [len(x) for batch in batches for x in batch.questions]
        sample_weight = np.repeat(np.asarray(sample_weight), counts)
    targets = None
    if labelled:
        targets = {name: batch[x] for name, x in _LABELS[head].items()}
    inputs = {name: batch[name] for name in _inputs(head, labelled)}
    return inputs, targets, sample_weight


def window_dataset(
    tokenizer: Tokenizer,
    settings: Mapping[str, Any],
    data: tf.data.Dataset,
    multiple: int,
) -> tf.data.Dataset:
    """Returns a dataset of windows of batches of strings, made in Python.

    Batches are `(questions, contexts)`, alone, with `(answers, starts)`, or
    with these and weights. For `multiple` see `window_arrays`.
    """
    head = settings["head"]

    def prepare(x, y=None, sample_weight=None):
        given = {"x": x, "y": y, "sample_weight": sample_weight}
        given = {name: x for name, x in given.items() if x is not None}
        inputs, outputs = _inputs(head, y is not None), ()
        if y is not None:
            outputs = tuple(_LABELS[head])

        def run(*arrays):
            found = tf.nest.pack_sequence_as(given, arrays)
            texts = [as_strings(part) for part in found["x"]]
            made, targets, weights = window_arrays(
                tokenizer,
                settings,
                texts,
                found.get("y"),
                found.get("sample_weight"),
                multiple=multiple,
            )
            values = [made[name] for name in inputs]
            values += (targets or {}).values()
            return values + ([] if weights is None else [np.float32(weights)])

        types = [tf.int32] * (len(inputs) + len(outputs))
        types += [tf.float32] * (sample_weight is not None)
        values = tf.numpy_function(run, tf.nest.flatten(given), types)
        ranks = [1 if name == START_POSITIONS else 2 for name in inputs]
        for value, rank in zip(values, ranks, strict=False):
            value.set_shape([None] * rank)
        for value in values[len(inputs) :]:
            value.set_shape([None])
        targets = dict(zip(outputs, values[len(inputs) :], strict=False))
        return keras.utils.pack_x_y_sample_weight(
            dict(zip(inputs, values, strict=False)),
            targets or None,
            None if sample_weight is None else values[-1],
        )

    return data.map(prepare).prefetch(tf.data.AUTOTUNE)


def _inputs(head: str, labelled: bool) -> tuple[str, ...]:
    if head == "v1":
        return ENCODER_INPUTS
    return (*ENCODER_INPUTS, P_MASK, *([START_POSITIONS] if labelled else []))


def _character(start: Any, number: int) -> int:
    """Returns the start of an answer; columns with gaps have floats."""
    if not isinstance(start, (int, float)) or start < 0 or start % 1 != 0:
        raise InputError(
            f"start {shown(start)} of question {number} must be a non-negative "
            "integer"
        )
    return int(start)


def _examples(
    texts: Sequence[Sequence[str]], y: tuple[Any, Any] | None, head: str
) -> list[QuestionAnsweringExample]:
    answers: Sequence[Any] = [None] * len(texts[0])
    if y is not None:
        if not isinstance(y, tuple) or len(y) != 2:
            raise InputError(
                "targets of questions must be a tuple (answers, starts)"
            )
        starts = np.asarray(y[1]).tolist()
        answers = list(zip(as_strings(y[0]), starts, strict=True))
    examples = []
    for number, (question, context, answer) in enumerate(
        zip(*texts, answers, strict=True)
    ):
        text, start = answer or ("", -1)
        if text:
            start = _character(start, number)
        if text and context[start : start + len(text)] != text:
            raise InputError(
                f"answer {shown(text)} of question {number} does not start at "
                f"character {start} of the context"
            )
        if answer and not text and head == "v1":
            raise InputError(
                f"question {number} has no answer, which requires head='joint'"
            )
        examples.append(
            QuestionAnsweringExample(
                id=str(number),
                question=question,
                context=context,
                answers=(Answer(text=text, start=start),) if text else (),
                is_impossible=answer is not None and not text,
                location=f"question {number}",
            )
        )
    return examples
