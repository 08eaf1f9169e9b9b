"""Official metrics of SQuAD 1.1 and 2.0 and CMRC 2018, and baselines."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from albert_tf.errors import InputError
from albert_tf.finetuning.question_answering.examples import (
    QuestionAnsweringExample,
)

# Question ID -> right answers; empty for unanswerable questions.
Answers = Mapping[str, Sequence[str]]

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def squad_v1(
    answers: Answers, predictions: Mapping[str, str]
) -> dict[str, float]:
    """Scores predictions by the rules of SQuAD 1.1.

    Args:
      answers: At least one answer for each question.
      predictions: Question ID -> answer. Questions that are not in `answers`
        are ignored; questions without a prediction score 0.

    Returns:
      `exact_match` and `f1` in percent; `total`, the number of questions; and
      `missing`, the number of questions without a prediction.

    Raises:
      InputError: if there are no questions, or one has no answer.
    """
    _check(answers, "SQuAD 1.1", "use the rules of SQuAD 2.0")
    exact, f1 = _scores(
        answers, predictions, normalize_answer, _words_of_answer, _word_f1
    )
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

    The official script fails if a prediction is missing; here it scores 0, as
    in version 1.1.

    Args:
      answers: Right answers; empty for unanswerable questions.
      predictions: Question ID -> answer; "" for no answer.

    Returns:
      `exact` and `f1` in percent, and `total` and `missing` like `squad_v1`;
      also `HasAns_exact`, `HasAns_f1`, `HasAns_total`, `NoAns_exact` etc. of
      the questions with and without an answer, if there are any.
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


def question_scores(
    answers: Answers, predictions: Mapping[str, str]
) -> tuple[dict[str, float], dict[str, float]]:
    """Returns exact match and F1, 0 to 1, of each question of SQuAD 2.0.

    Questions without a prediction are skipped.
    """
    # Answers that are empty after normalization, such as "the", do not count.
    right = {
        question: [text for text in texts if normalize_answer(text)] or [""]
        for question, texts in answers.items()
    }

    def f1(predicted, right):
        if not predicted or not right:
            return float(predicted == right)
        return _word_f1(predicted, right)

    return _scores(right, predictions, normalize_answer, _words_of_answer, f1)


def normalize_answer(text: str) -> str:
    """Removes case, ASCII punctuation, articles and extra white space."""
    text = text.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", text).split())


def _check(
    answers: Answers, rules: str | None = None, advice: str = ""
) -> None:
    """Raises an `InputError` if there are no questions.

    With `rules`, also if a question has no answer.
    """
    if not answers:
        raise InputError("there are no questions to score")
    for question, right in answers.items():
        if rules and not right:
            raise InputError(
                f"question {question}: {rules} has no questions without an "
                f"answer; {advice}"
            )


def _scores(
    answers: Answers,
    predictions: Mapping[str, str],
    normalize: Callable[[str], str],
    split: Callable[[str], list[str]],
    f1_of: Callable[[list[str], list[str]], float],
) -> tuple[dict[str, float], dict[str, float]]:
    """Returns exact match and F1 of predicted questions, 0 to 1.

    The best of several right answers counts. Texts match exactly if they are
    equal after `normalize`. F1 is `f1_of` the tokens returned by `split`.
    """
    exact, f1 = {}, {}
    for question, right in answers.items():
        if question not in predictions:
            continue
        predicted = predictions[question]
        exact[question] = float(normalize(predicted) in map(normalize, right))
        tokens = split(predicted)
        f1[question] = max(f1_of(tokens, split(text)) for text in right)
    return exact, f1


def _words_of_answer(text: str) -> list[str]:
    return normalize_answer(text).split()


def _word_f1(predicted: list[str], right: list[str]) -> float:
    common = sum((Counter(predicted) & Counter(right)).values())
    return _f1(common, predicted, right)


def _f1(common: int, predicted: list[str], right: list[str]) -> float:
    if not common:
        return 0.0
    precision, recall = common / len(predicted), common / len(right)
    return 2 * precision * recall / (precision + recall)


# The script's list. Its "……" has two characters, so it never matches one.
_DROPPED = frozenset("-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
_IDEOGRAPH = re.compile("[\u4e00-\u9fa5]")

# The rules of NLTK's `word_tokenize` for text between ideographs.
_OPENING_QUOTE = re.compile(r"(?:^|(?<=[ (\[{<]))\"")
_MARKS = re.compile(r"\.{2,}|''|`+|[;@#$%&?!<>\[\](){}‘„«»]|,(?=\D|$)")
_FINAL_PERIOD = re.compile(r"(?<=[^.])\.(?=[\])}>\"'» ]*$)")
_CLITICS = re.compile(r"(?<=[^' ])('(?:s|m|d|ll|re|ve)?|n't)(?=\s|$)")


def cmrc(answers: Answers, predictions: Mapping[str, str]) -> dict[str, float]:
    """Scores predictions by the rules of CMRC 2018; see `squad_v1`.

    F1 is computed from the longest common substring of segments: ideographs,
    and the words between them, without punctuation. Exact match compares
    lower-cased characters without punctuation. The best right answer counts.

    The script splits text between ideographs with NLTK's `word_tokenize`; the
    rules that are relevant for answers are reimplemented here.

    Returns:
      `f1`, `exact_match` and their mean `average` in percent, and `total` and
      `missing` like `squad_v1`.
    """
    _check(answers, "CMRC 2018", "give one")
    matches, f1s = _scores(
        answers, predictions, _normalize_cmrc, _segments, _substring_f1
    )
    f1, exact = (
        100.0 * sum(values.values()) / len(answers) for values in (f1s, matches)
    )
    return {
        "f1": f1,
        "exact_match": exact,
        "average": (exact + f1) * 0.5,
        "total": len(answers),
        "missing": len(answers) - len(f1s),
    }


def _normalize_cmrc(text: str) -> str:
    return "".join(c for c in text.lower().strip() if c not in _DROPPED)


def _segments(text: str) -> list[str]:
    segments = []
    for part in re.split("([\u4e00-\u9fa5])", _normalize_cmrc(text)):
        segments += [part] if _IDEOGRAPH.match(part) else _words(part)
    return segments


def _words(text: str) -> list[str]:
    text = _OPENING_QUOTE.sub(" `` ", text).replace('"', " '' ")
    text = _MARKS.sub(r" \g<0> ", text)
    text = _FINAL_PERIOD.sub(" .", text)
    return _CLITICS.sub(r" \1", text).split()


def _substring_f1(predicted: list[str], right: list[str]) -> float:
    """Returns the F1 of the longest common substring of segments."""
    longest = 0
    before = [0] * (len(right) + 1)
    for a in predicted:
        row = [0] * (len(right) + 1)
        for j, b in enumerate(right):
            if a == b:
                row[j + 1] = before[j] + 1
        longest = max(longest, *row)
        before = row
    return _f1(longest, predicted, right)


# Scoring functions by the name of the rules.
RULES = {"squad1.1": squad_v1, "squad2.0": squad_v2, "cmrc": cmrc}


def best_threshold(
    answers: Answers,
    predictions: Mapping[str, str],
    null_scores: Mapping[str, float | None],
) -> float:
    """Finds the lowest null threshold with the best F1 by SQuAD 2.0's rules.

    A question is answered if its null score is at most the threshold. The
    official script differs in three ways: it does not apply the threshold to
    the scores it reports, it separates questions with equal null scores, and it
    cannot leave all questions unanswered.

    Args:
      predictions: Question ID -> answer, assuming that there is one.
      null_scores: Question ID -> logit of the question being unanswerable.

    Raises:
      InputError: if a predicted question has no null score.
    """
    _, answered = question_scores(answers, predictions)
    _, nothing = question_scores(answers, dict.fromkeys(predictions, ""))
    gain_at: dict[float, float] = {}
    for question, f1 in answered.items():
        score = null_scores.get(question)
        if score is None:
            raise InputError(
                f"question {question}: a prediction but no null score; use a "
                "model with a joint head"
            )
        gain = f1 - nothing[question]
        gain_at[score] = gain_at.get(score, 0.0) + gain
    # Below all scores, but finite, since JSON has no infinity.
    threshold = min(gain_at, default=0.0) - 1.0
    best = total = 0.0
    for score in sorted(gain_at):
        total += gain_at[score]
        if total > best:
            best, threshold = total, score
    return threshold


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
    """Scores answers that need no training, by the given metrics.

    - "no answer" to any question, if some are unanswerable
    - "most similar sentence": the sentence of the context with the most words
      of the question, the first of several
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
    words = _distinct_words(example.question)
    sentences = _END_OF_SENTENCE.split(example.context)
    return max(sentences, key=lambda x: len(words & _distinct_words(x)))


def _distinct_words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))
