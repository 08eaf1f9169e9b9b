"""Chronicles: synthetic text in which topic and order are separate signals.

A document tells what one person did in consecutive years, such as "In 1971 the
baker sold the oven and the bread." All sentences name things of the person's
trade, so the words tell whether two passages are from the same document. Only
the years tell their order, and since documents begin in different years, a
model has to compare two of them. These are the topic prediction and coherence
prediction of Lan et al. 2020, section 3.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

_SENTENCES_PER_DOCUMENT = 4
_YEARS = range(1960, 1972)
_TRADES = (
    ("violinist", "piano", "drum", "flute"),
    ("farmer", "cow", "sheep", "horse"),
    ("sailor", "boat", "harbour", "anchor"),
    ("mechanic", "engine", "wheel", "brake"),
    ("gardener", "rose", "tulip", "spade"),
    ("baker", "flour", "oven", "bread"),
    ("painter", "brush", "canvas", "portrait"),
    ("tailor", "needle", "wool", "scarf"),
    ("postman", "letter", "stamp", "parcel"),
    ("astronomer", "planet", "star", "telescope"),
    ("mason", "brick", "ladder", "roof"),
    ("doctor", "pill", "nurse", "bandage"),
)
_DEEDS = (
    *("saw", "carried", "cleaned", "bought", "liked", "touched"),
    *("dropped", "found", "wanted", "remembered", "sold", "drew"),
)


class Pair(NamedTuple):
    """Two passages, and whether the second continues the first.

    Attributes:
      text: The first passage.
      pair: The second passage.
      label: "continues", or "no": the passages are in the wrong order, or are
        about two persons.
    """

    text: str
    pair: str
    label: str


def chronicles(seed: int = 0) -> Iterator[list[str]]:
    """Yields an endless sequence of documents, each a list of sentences."""
    rng = np.random.default_rng(seed)
    while True:
        trade = int(rng.integers(len(_TRADES)))
        yield _document(rng, trade, _first_year(rng))


def pairs(seed: int = 0) -> Iterator[Pair]:
    """Yields an endless sequence of pairs, half of them with each label.

    Half of the pairs that do not continue are swapped; in the others, the
    second passage is about the right years of another person. To know the topic
    or the order alone is therefore to be right in three quarters.
    """
    rng = np.random.default_rng(seed)
    middle = _SENTENCES_PER_DOCUMENT // 2
    while True:
        trade, year = int(rng.integers(len(_TRADES))), _first_year(rng)
        document = _document(rng, trade, year)
        first, second = document[:middle], document[middle:]
        kind = rng.integers(4)
        if kind == 0:
            first, second = second, first
        elif kind == 1:
            other = (trade + int(rng.integers(1, len(_TRADES)))) % len(_TRADES)
            second = _document(rng, other, year)[middle:]
        label = "no" if kind < 2 else "continues"
        yield Pair(" ".join(first), " ".join(second), label)


def _first_year(rng: np.random.Generator) -> int:
    return int(rng.integers(len(_YEARS) - _SENTENCES_PER_DOCUMENT + 1))


def _document(rng: np.random.Generator, trade: int, first: int) -> list[str]:
    person, *things = _TRADES[trade]
    sentences = []
    for year in _YEARS[first : first + _SENTENCES_PER_DOCUMENT]:
        deed = _DEEDS[rng.integers(len(_DEEDS))]
        one, other = rng.choice(things, 2, replace=False)
        sentences.append(
            f"In {year} the {person} {deed} the {one} and the {other}."
        )
    return sentences
