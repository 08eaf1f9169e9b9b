"""Labelled examples out of any text: which source is a passage from?"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence

import numpy as np

from albert_tf.data.documents import read_documents

_SENTENCES = 2  # of a passage


@dataclasses.dataclass(frozen=True)
class LabelledPassages:
    """Passages of two sources, in two disjoint sets of documents.

    Attributes:
      sources: what label 0 and label 1 mean.
      train, test: (label, passage); both labels equally often.
    """

    sources: tuple[str, str]
    train: list[tuple[int, str]]
    test: list[tuple[int, str]]


def label_passages(
    files: Sequence[pathlib.Path], train_size: int, test_size: int, seed: int
) -> LabelledPassages:
    """Draws passages of the two largest files, or of the halves of one.

    Args:
      files: text files in the format "lines".
      train_size, test_size: most passages of each set.
      seed: of the draw.
    """
    largest = sorted(files, key=lambda path: -path.stat().st_size)[:2]
    if len(largest) == 2:
        names = tuple(path.stem for path in largest)
        sources = [list(read_documents(path)) for path in largest]
    else:
        names = ("first half", "second half")
        documents = list(read_documents(largest[0]))
        middle = len(documents) // 2
        sources = [documents[:middle], documents[middle:]]
    rng = np.random.default_rng(seed)
    sets = {"train": [], "test": []}
    for name, size in (("test", test_size), ("train", train_size)):
        drawn = [_draw(source, name, rng) for source in sources]
        count = min(size // 2, *map(len, drawn))
        for label, passages in enumerate(drawn):
            sets[name] += [(label, text) for text in passages[:count]]
        rng.shuffle(sets[name])
    return LabelledPassages(
        sources=names,
        train=[(int(label), str(text)) for label, text in sets["train"]],
        test=[(int(label), str(text)) for label, text in sets["test"]],
    )


def _draw(documents, name, rng) -> list[str]:
    """Returns the passages of a source's test (every fourth) or other ones."""
    passages = [
        " ".join(document[start : start + _SENTENCES])
        for number, document in enumerate(documents)
        if (number % 4 == 0) == (name == "test")
        for start in range(0, len(document) - 1, _SENTENCES)
    ]
    rng.shuffle(passages)
    return passages
