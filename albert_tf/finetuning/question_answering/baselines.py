"""Baselines of question answering."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from albert_tf.finetuning.question_answering.examples import (
    QuestionAnsweringExample,
)

# Words, and single ideographs and kana.
_WORD = re.compile(
    "[\u3040-\u30ff\u3400-\u9fff]|[^\\W\u3040-\u30ff\u3400-\u9fff]+"
)
_END_OF_SENTENCE = re.compile("(?<=[.!?])\\s+|(?<=[\u3002\uff01\uff1f])")

Scores = dict[str, float]


def answer_baselines(
    examples: Sequence[QuestionAnsweringExample],
    score: Callable[[Mapping[str, str]], Scores],
    *,
    metrics: Sequence[str],
    impossible: bool,
) -> dict[str, Scores]:
    """Scores answers that need no training.

    - "no answer" to any question, if some are unanswerable
    - "most similar sentence": the sentence of the context with the most words
      of the question, the first of several

    Args:
      examples: the questions.
      score: scores of answers by the id of the question.
      metrics: the scores to return.
      impossible: whether some questions are unanswerable.
    """
    answers = {"no answer": {x.id: "" for x in examples}} if impossible else {}
    answers["most similar sentence"] = {
        x.id: _most_similar_sentence(x) for x in examples
    }
    found = {name: score(given) for name, given in answers.items()}
    return {
        name: {metric: scores[metric] for metric in metrics}
        for name, scores in found.items()
    }


def _most_similar_sentence(example: QuestionAnsweringExample) -> str:
    words = _words(example.question)
    sentences = _END_OF_SENTENCE.split(example.context)
    return max(sentences, key=lambda x: len(words & _words(x)))


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))
