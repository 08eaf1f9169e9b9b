"""The official scores of SQuAD 1.1 and 2.0."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from albert_tf.errors import InputError

# Question ID -> the answers that are right; none: the question has no answer.
Answers = Mapping[str, Sequence[str]]

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def squad_v1(
    answers: Answers, predictions: Mapping[str, str]
) -> dict[str, float]:
    """Scores predictions by the rules of SQuAD 1.1.

    Args:
      answers: of each question at least one.
      predictions: question ID -> answer. Others than those of `answers` do not
        count; a question without scores 0.

    Returns:
      `exact_match` and `f1` in percent, `total` questions, `missing` ones
      (`missing_ids` tells which).

    Raises:
      InputError: a question without an answer, or no question.
    """
    _check(answers)
    for question, right in answers.items():
        if not right:
            raise InputError(
                f"question {question}: SQuAD 1.1 has no questions without an "
                "answer; score by the rules of SQuAD 2.0"
            )
    exact, f1 = _scores(answers, predictions, _f1_v1)
    return {
        "exact_match": 100.0 * sum(exact.values()) / len(answers),
        "f1": 100.0 * sum(f1.values()) / len(answers),
        "total": len(answers),
        "missing": len(answers) - len(exact),
    }


def squad_v2(
    answers: Answers, predictions: Mapping[str, str]
) -> dict[str, float]:
    """Scores predictions by the rules of SQuAD 2.0.

    The official script stops at a missing prediction; here it scores 0, as by
    the rules of 1.1.

    Args:
      answers: of each question; none: the right answer is "".
      predictions: question ID -> answer, "" for none.

    Returns:
      `exact` and `f1` in percent, `total` questions, `missing` ones, and
      `HasAns_exact`, `HasAns_f1`, `HasAns_total`, `NoAns_exact` and so on of
      those with and without an answer, where there are any.

    Raises:
      InputError: no question.
    """
    _check(answers)
    exact, f1 = question_scores(answers, predictions)
    groups = {
        "": list(answers),
        "HasAns_": [question for question, right in answers.items() if right],
        "NoAns_": [question for question in answers if not answers[question]],
    }
    scores = {}
    for name, questions in groups.items():
        total = len(questions)
        if not total:
            continue
        for metric, values in (("exact", exact), ("f1", f1)):
            scored = sum(values.get(question, 0) for question in questions)
            scores[name + metric] = 100.0 * scored / total
        scores[name + "total"] = total
    return {**scores, "missing": len(answers) - len(exact)}


def missing_ids(answers: Answers, predictions: Mapping[str, str]) -> list[str]:
    """Returns the questions without a prediction."""
    return [question for question in answers if question not in predictions]


def question_scores(
    answers: Answers, predictions: Mapping[str, str]
) -> tuple[dict[str, float], dict[str, float]]:
    """Returns exact match and F1, 0 to 1, of each question of SQuAD 2.0.

    Questions without a prediction are left out.
    """
    # Answers of which nothing is left, such as "the", are no answers.
    right = {
        question: [text for text in texts if normalize_answer(text)] or [""]
        for question, texts in answers.items()
    }
    return _scores(right, predictions, _f1_v2)


def normalize_answer(text: str) -> str:
    """Lower-cases; drops ASCII punctuation, articles, needless white space."""
    text = text.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", text).split())


def _check(answers: Answers) -> None:
    if not answers:
        raise InputError("there is no question to score")


def _scores(
    answers: Answers,
    predictions: Mapping[str, str],
    f1_of: Callable[[list[str], list[str]], float],
) -> tuple[dict[str, float], dict[str, float]]:
    """Returns the scores of predicted questions, by the best right answer."""
    exact, f1 = {}, {}
    for question, texts in answers.items():
        if question not in predictions:
            continue
        predicted = normalize_answer(predictions[question])
        right = [normalize_answer(text) for text in texts]
        exact[question] = float(predicted in right)
        f1[question] = max(
            f1_of(predicted.split(), text.split()) for text in right
        )
    return exact, f1


def _f1_v1(predicted: list[str], right: list[str]) -> float:
    common = sum((Counter(predicted) & Counter(right)).values())
    if not common:
        return 0.0
    precision, recall = common / len(predicted), common / len(right)
    return 2 * precision * recall / (precision + recall)


def _f1_v2(predicted: list[str], right: list[str]) -> float:
    if not predicted or not right:
        return float(predicted == right)
    return _f1_v1(predicted, right)
