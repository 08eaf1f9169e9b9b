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


def chronicles(seed: int = 0) -> Iterator[list[str]]:
    """Yields an endless sequence of documents, each a list of sentences."""
    rng = np.random.default_rng(seed)
    while True:
        person, *things = _TRADES[rng.integers(len(_TRADES))]
        first = rng.integers(len(_YEARS) - _SENTENCES_PER_DOCUMENT + 1)
        sentences = []
        for year in _YEARS[first : first + _SENTENCES_PER_DOCUMENT]:
            deed = _DEEDS[rng.integers(len(_DEEDS))]
            one, other = rng.choice(things, 2, replace=False)
            sentences.append(
                f"In {year} the {person} {deed} the {one} and the {other}."
            )
        yield sentences
