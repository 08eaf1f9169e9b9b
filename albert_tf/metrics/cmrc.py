"""The official scores of CMRC 2018, questions about Chinese texts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from albert_tf.errors import InputError

# The script's list, in which "……" has two characters and so never counts.
_DROPPED = frozenset("-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
_IDEOGRAPH = re.compile("[\u4e00-\u9fa5]")

# How NLTK's `word_tokenize`, which the script calls, cuts what is between
# ideographs, as far as answers have it.
_OPENING_QUOTE = re.compile(r"(?:^|(?<=[ (\[{<]))\"")
_MARKS = re.compile(r"\.{2,}|''|`+|[;@#$%&?!<>\[\](){}‘„«»]|,(?=\D|$)")
_FINAL_PERIOD = re.compile(r"(?<=[^.])\.(?=[\])}>\"'» ]*$)")
_CLITICS = re.compile(r"(?<=[^' ])('(?:s|m|d|ll|re|ve)?|n't)(?=\s|$)")


def cmrc(
    answers: Mapping[str, Sequence[str]], predictions: Mapping[str, str]
) -> dict[str, float]:
    """Scores predictions by the rules of CMRC 2018.

    F1 is that of the longest common run of segments, which are ideographs and
    whole words between them, without punctuation. Exact match is that of
    lower-cased characters without punctuation. The best right answer counts.

    The script cuts text that is not Chinese by NLTK; here the rules of that
    which matter are written out. Left out is that NLTK would look for ends of
    sentences inside of it.

    Args:
      answers: question ID -> right answers, at least one.
      predictions: question ID -> answer; a question without scores 0.

    Returns:
      `f1`, `exact_match` and their mean `average` in percent, `total`
      questions, `missing` ones.

    Raises:
      InputError: no question, or one without an answer.
    """
    if not answers:
        raise InputError("there is no question to score")
    f1 = exact = missing = 0.0
    for question, right in answers.items():
        if not right:
            raise InputError(
                f"question {question}: CMRC 2018 has no questions without an "
                "answer; give one"
            )
        if question not in predictions:
            missing += 1
            continue
        predicted = predictions[question]
        segments = _segments(predicted)
        f1 += max(_f1(_segments(text), segments) for text in right)
        exact += _solid(predicted) in map(_solid, right)
    f1, exact = 100.0 * f1 / len(answers), 100.0 * exact / len(answers)
    return {
        "f1": f1,
        "exact_match": exact,
        "average": (exact + f1) * 0.5,
        "total": len(answers),
        "missing": int(missing),
    }


def _solid(text: str) -> str:
    return "".join(c for c in text.lower().strip() if c not in _DROPPED)


def _segments(text: str) -> list[str]:
    segments = []
    for part in re.split("([\u4e00-\u9fa5])", _solid(text)):
        segments += [part] if _IDEOGRAPH.match(part) else _words(part)
    return segments


def _words(text: str) -> list[str]:
    text = _OPENING_QUOTE.sub(" `` ", text).replace('"', " '' ")
    text = _MARKS.sub(r" \g<0> ", text)
    text = _FINAL_PERIOD.sub(" .", text)
    return _CLITICS.sub(r" \1", text).split()


def _f1(right: list[str], predicted: list[str]) -> float:
    common = _longest_common_run(right, predicted)
    if not common:
        return 0.0
    precision, recall = common / len(predicted), common / len(right)
    return 2 * precision * recall / (precision + recall)


def _longest_common_run(left: list[str], right: list[str]) -> int:
    """Returns how many segments the longest run has that is in both."""
    longest = 0
    before = [0] * (len(right) + 1)
    for a in left:
        row = [0] * (len(right) + 1)
        for j, b in enumerate(right):
            if a == b:
                row[j + 1] = before[j] + 1
        longest = max(longest, *row)
        before = row
    return longest
