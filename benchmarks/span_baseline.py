"""A question-answering baseline: classifies runs of words as answers."""

from __future__ import annotations

import dataclasses
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from sklearn.feature_extraction import FeatureHasher
from sklearn.linear_model import LogisticRegression

from albert_tf.finetuning.question_answering.examples import (
    QuestionAnsweringExample,
)

# Each ideograph is a word.
_WORD = re.compile(r"[\u4e00-\u9fff]|[^\W\u4e00-\u9fff]+|[^\w\s]")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"])|(?<=[。！？；])")

_SENTENCES = 3  # most similar to the question, which have candidates
_WINDOW = 6  # words on each side of a candidate
_KEPT_NEGATIVES = 0.2  # of the candidates of a training question


@dataclasses.dataclass(frozen=True)
class Language:
    """Settings of a language.

    Attributes:
      max_words: Maximum length of candidates in words, except for runs between
        punctuation marks or words of the question, which may be longer.
      question_words: Words that tell what a question asks for, by priority.
    """

    max_words: int
    question_words: tuple[str, ...]


ENGLISH = Language(
    4,
    (
        "how many",
        "how much",
        "how",
        "who",
        "whom",
        "whose",
        "when",
        "where",
        "why",
        "which",
        "what",
    ),
)
CHINESE = Language(
    10,
    (
        "什么时候",
        "为什么",
        "哪一年",
        "哪年",
        "哪里",
        "多少",
        "怎",
        "如何",
        "谁",
        "几",
        "哪",
        "什么",
    ),
)


def fit(
    train: Sequence[QuestionAnsweringExample], language: Language
) -> Callable[[Sequence[QuestionAnsweringExample]], dict[str, str]]:
    """Trains a classifier of answers and other candidates.

    Returns:
      A function that returns the best candidate of each question, by id.
    """
    rarity = _rarity(train)
    hasher = FeatureHasher(2**20, input_type="pair")
    rng = random.Random(0)
    features, right = [], []
    for example in train:
        answers = {_solid(answer.text) for answer in example.answers}
        for text, values in _candidates(example, language, rarity):
            is_right = _solid(text) in answers
            if is_right or rng.random() < _KEPT_NEGATIVES:
                features.append(values)
                right.append(is_right)
    model = LogisticRegression(C=1.0, max_iter=300)
    model.fit(hasher.transform(features), right)

    def predict(examples: Sequence[QuestionAnsweringExample]) -> dict[str, str]:
        predictions = {}
        for example in examples:
            texts, found = [], []
            for text, values in _candidates(example, language, rarity):
                texts.append(text)
                found.append(values)
            scores = model.decision_function(hasher.transform(found))
            predictions[example.id] = texts[int(np.argmax(scores))]
        return predictions

    return predict


def _rarity(
    examples: Sequence[QuestionAnsweringExample],
) -> Mapping[str, float]:
    """Returns the inverse document frequencies of words in contexts."""
    contexts = dict.fromkeys(example.context for example in examples)
    counts = Counter()
    for context in contexts:
        counts.update(set(_WORD.findall(context.lower())))
    unseen = math.log(len(contexts) + 1)
    rarity = {x: unseen - math.log(n) for x, n in counts.items()}
    return _Rarity(rarity, unseen)


class _Rarity(dict):
    def __init__(self, values: Mapping[str, float], unseen: float):
        super().__init__(values)
        self._unseen = unseen

    def __missing__(self, word: str) -> float:
        return self._unseen


def _candidates(
    example: QuestionAnsweringExample,
    language: Language,
    rarity: Mapping[str, float],
) -> Iterator[tuple[str, list[tuple[str, float]]]]:
    """Yields candidates and their features, at least one."""
    question = example.question.lower()
    asked = _WORD.findall(question)
    wanted = {word: rarity[word] for word in asked if word.isalnum()}
    total = sum(wanted.values()) or 1.0
    kind = next((x for x in language.question_words if x in question), "")
    after = question.partition(kind)[2].split()[:1] if kind else []
    kinds = [kind, f"{kind} {''.join(after)}"]
    sentences = []
    for begin, end in _sentences(example.context):
        words = list(_WORD.finditer(example.context, begin, end))
        if words:
            found = {word.group().lower() for word in words}
            weight = sum(x for word, x in wanted.items() if word in found)
            sentences.append((weight / total / (8 + len(found)) ** 0.5, words))
    sentences.sort(key=lambda sentence: -sentence[0])
    for rank, (likeness, words) in enumerate(sentences[:_SENTENCES]):
        lower = [word.group().lower() for word in words]
        for begin, end in _runs(lower, wanted, language.max_words):
            text = example.context[words[begin].start() : words[end - 1].end()]
            near = sum(
                wanted.get(lower[i], 0) / (1 + max(begin - i, i - end + 1))
                for i in range(
                    max(0, begin - _WINDOW), min(len(lower), end + _WINDOW)
                )
                if not begin <= i < end
            )
            inside = sum(wanted.get(word, 0) for word in lower[begin:end])
            before = lower[begin - 1] if begin else "<"
            behind = lower[end] if end < len(lower) else ">"
            shape = _shape(words[begin].group()) + _shape(
                words[end - 1].group()
            )
            length = min(end - begin, 8 + (end - begin) // 8)
            values = [
                ("likeness", 4 * likeness),
                (f"rank {rank}", 1.0),
                ("near", 4 * near / total),
                ("inside", 4 * inside / total),
            ]
            for each in kinds:
                values += [(f"{each}|{shape}", 1.0), (f"{each}|{length}", 1.0)]
            values += [
                (f"{kind}|< {before}", 1.0),
                (f"{kind}|> {behind}", 1.0),
                (f"{kind}|first {lower[begin]}", 1.0),
                (f"{kind}|last {lower[end - 1]}", 1.0),
            ]
            yield text, values


def _sentences(context: str) -> Iterator[tuple[int, int]]:
    begin = 0
    for match in _SENTENCE_END.finditer(context):
        yield begin, match.start()
        begin = match.end()
    yield begin, len(context)


def _runs(
    words: Sequence[str], wanted: Mapping[str, float], max_words: int
) -> list[tuple[int, int]]:
    """Returns the (begin, end) of runs of words that are candidates."""
    punctuation = {word for word in words if not word.isalnum()}
    runs = set()
    for stops in (punctuation, punctuation | wanted.keys()):
        begin = 0
        for i, word in enumerate([*words, None]):
            if word is None or word in stops:
                if i > begin:
                    runs.add((begin, i))
                begin = i + 1
    for begin in range(len(words)):
        for end in range(begin + 1, min(begin + max_words, len(words)) + 1):
            if words[begin].isalnum() and words[end - 1].isalnum():
                runs.add((begin, end))
    return sorted(runs) or [(0, len(words))]


def _shape(word: str) -> str:
    if word[0].isdigit():
        return "0"
    return "A" if word[0].isupper() else "a"


def _solid(text: str) -> str:
    return "".join(_WORD.findall(text.lower()))
