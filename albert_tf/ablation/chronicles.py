"""Chronicles: made text whose topic and order are known.

A document tells year by year what one person did, such as "In 1971 the baker
sold the oven and the bread." Each sentence names things of the person's trade,
so whether two passages are of one document shows in their words. Their order
shows only in the years: each document begins in another one, so a year says
little by itself, and a model has to compare two. These are the topic and the
coherence that Lan et al. 2020 tell apart in section 3.1.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

_SENTENCES = 4  # of a document
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
    """Yields documents without end, each a list of sentences."""
    rng = np.random.default_rng(seed)
    while True:
        person, *things = _TRADES[rng.integers(len(_TRADES))]
        first = rng.integers(len(_YEARS) - _SENTENCES + 1)
        sentences = []
        for year in _YEARS[first : first + _SENTENCES]:
            deed = _DEEDS[rng.integers(len(_DEEDS))]
            one, other = rng.choice(things, 2, replace=False)
            sentences.append(
                f"In {year} the {person} {deed} the {one} and the {other}."
            )
        yield sentences
