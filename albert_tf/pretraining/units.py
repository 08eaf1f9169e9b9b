"""Units of input: consecutive text files whose records are made together.

A unit can be read, repeated or skipped by itself: nothing that is made of it
depends on another one but on its number.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from albert_tf.pretraining.text_files import (
    COMPRESSION_RATIO,
    TextPath,
    is_compressed,
    size_of,
)

# Files are added to a unit up to this many bytes of text.
_UNIT_BYTES = 64 << 20


@dataclasses.dataclass(frozen=True)
class Unit:
    """Consecutive text files.

    Attributes:
      number: the number among all units, from 0.
      files: one large file, or several.
      text_bytes: estimate of the size of their text.
    """

    number: int
    files: tuple[TextPath, ...]
    text_bytes: int


def make_units(
    files: Iterable[TextPath], unit_bytes: int = _UNIT_BYTES
) -> Iterator[Unit]:
    """Yields the units of files.

    Args:
      files: the files, in their order.
      unit_bytes: least size of the text of a unit that is not the last.
    """
    number = size = 0
    pending: list[TextPath] = []
    for path in files:
        pending.append(path)
        size += text_bytes(path)
        if size >= unit_bytes:
            yield Unit(number, tuple(pending), size)
            pending, size = [], 0
            number += 1
    if pending:
        yield Unit(number, tuple(pending), size)


def text_bytes(path: TextPath) -> int:
    """Returns the size of a file's text, an estimate if it is compressed."""
    return size_of(path) * (COMPRESSION_RATIO if is_compressed(path) else 1)
