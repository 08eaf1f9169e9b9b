"""The files that the original writes of its answers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, TextIO

from albert_tf.tasks.answers.question_answers import QuestionAnswers


def predictions_of(
    answers: Iterable[QuestionAnswers], threshold: float | None = None
) -> dict[str, str]:
    """Returns the answer to each question: what `predictions.json` holds.

    Args:
      answers: of all questions.
      threshold: see `QuestionAnswers.text`.
    """
    return {each.id: each.text(threshold) for each in answers}


def null_odds_of(answers: Iterable[QuestionAnswers]) -> dict[str, float]:
    """Returns the null score of each question: what `null_odds.json` holds."""
    return {each.id: each.null_score for each in answers}


def nbest_of(answers: QuestionAnswers) -> list[dict[str, Any]]:
    """Returns what `nbest_predictions.json` holds of a question."""
    return [
        {
            "text": answer.text,
            "probability": answer.probability,
            "start_log_prob": answer.start_score,
            "end_log_prob": answer.end_score,
        }
        for answer in answers.best
    ]


def write_answers(
    answers: Iterable[QuestionAnswers],
    *,
    predictions: TextIO,
    nbest: TextIO,
    null_odds: TextIO | None = None,
    threshold: float | None = None,
) -> int:
    """Writes the original's files, question by question.

    Args:
      answers: any number; one is held at a time.
      predictions: for the answers (`predictions.json`).
      nbest: for the best answers (`nbest_predictions.json`).
      null_odds: for the null scores (`null_odds.json`); joint head only.
      threshold: see `QuestionAnswers.text`.

    Returns:
      The number of questions.
    """
    count = 0
    files = [file for file in (predictions, nbest, null_odds) if file]
    for each in answers:
        contents = [each.text(threshold), nbest_of(each), each.null_score]
        for file, content in zip(files, contents, strict=False):
            file.write(",\n" if count else "{\n")
            file.write(_member({each.id: content}))
        count += 1
    for file in files:
        file.write("\n}\n" if count else "{}\n")
    return count


def _member(member: Mapping[str, Any]) -> str:
    """Returns the text of an object, without its braces."""
    return json.dumps(member, indent=4)[len("{\n") : -len("\n}")]
