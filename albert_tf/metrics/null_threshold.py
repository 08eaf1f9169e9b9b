"""From which null score on a question has no answer (SQuAD 2.0)."""

from __future__ import annotations

from collections.abc import Mapping

from albert_tf.errors import InputError
from albert_tf.metrics.squad import Answers, question_scores, squad_v2


def best_thresholds(
    answers: Answers,
    predictions: Mapping[str, str],
    null_scores: Mapping[str, float | None],
) -> dict[str, float]:
    """Finds the thresholds with which a model scores best.

    A question is answered if its null score is at most the threshold. Unlike
    in the official script, so it is both in the search and in what is reported
    for it, questions of equal null score stay together, and a threshold is
    found that leaves every question unanswered where that is best.

    Args:
      answers: question ID -> right answers.
      predictions: question ID -> the answer if it has one.
      null_scores: question ID -> the higher, the less likely it has one.

    Returns:
      `best_exact` and `best_f1` in percent, and `best_exact_thresh` and
      `best_f1_thresh`, by which `apply_threshold` gives predictions with these
      scores; of equally good thresholds the lowest.

    Raises:
      InputError: a predicted question has no null score.
    """
    found = {}
    answered = question_scores(answers, predictions)
    nothing = question_scores(answers, dict.fromkeys(predictions, ""))
    for name, if_answered, if_not in zip(
        ("exact", "f1"), answered, nothing, strict=True
    ):
        gains = {
            question: if_answered[question] - if_not[question]
            for question in if_answered
        }
        threshold = _best(gains, null_scores)
        scores = squad_v2(
            answers, apply_threshold(predictions, null_scores, threshold)
        )
        found[f"best_{name}"] = scores[name]
        found[f"best_{name}_thresh"] = threshold
    return found


def apply_threshold(
    predictions: Mapping[str, str],
    null_scores: Mapping[str, float | None],
    threshold: float,
) -> dict[str, str]:
    """Returns the predictions, "" where the null score is above the threshold.

    Raises:
      InputError: a question has no null score.
    """
    return {
        question: "" if _score(null_scores, question) > threshold else text
        for question, text in predictions.items()
    }


def _best(
    gains: Mapping[str, float], null_scores: Mapping[str, float | None]
) -> float:
    """Returns the threshold below which gains add up to most."""
    at: dict[float, float] = {}
    for question, gain in gains.items():
        score = _score(null_scores, question)
        at[score] = at.get(score, 0.0) + gain
    # Below all of them; a number that every file can hold.
    threshold = min(at, default=0.0) - 1.0
    best = total = 0.0
    for score in sorted(at):
        total += at[score]
        if total > best:
            best, threshold = total, score
    return threshold


def _score(null_scores: Mapping[str, float | None], question: str) -> float:
    if null_scores.get(question) is None:
        raise InputError(
            f"question {question}: it has a prediction, and no null score; "
            "give both of a model with a joint head"
        )
    return null_scores[question]
