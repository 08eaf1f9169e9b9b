"""Units of input: consecutive text files whose records are made together.

A unit can be read, repeated or skipped by itself: nothing that is made of it
depends on another one but on its number.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator

from albert_tf.files import sha256
from albert_tf.pretraining.data_config import PretrainingDataConfig
from albert_tf.pretraining.documents import (
    TextBlock,
    make_blocks,
    read_corpus,
)
from albert_tf.pretraining.text_files import (
    COMPRESSION_RATIO,
    TextPath,
    is_compressed,
    size_of,
)

# More than a unit has: one file of 4 TB.
_MAX_BLOCKS = 1 << 24


@dataclasses.dataclass(frozen=True)
class Limits:
    """Sizes that bound memory, files and what an interruption may cost.

    Attributes:
      unit_bytes: files are added to a unit up to this many bytes of text.
      min_block_bytes, max_block_bytes: least size of a block of documents.
        Random next sentences come from the same block, so it should hold many
        documents: 256 KiB are 70 articles of Wikipedia.
      pass_bytes: text of a block, times the passes over it. Their records,
        about twice the bytes, are in memory at once. A block of fewer bytes
        than the others may have twice as many, one long document any number.
      shard_bytes: size of a record file that is not exceeded.
      save_seconds: time after which the state of a job is saved.
    """

    unit_bytes: int = 64 << 20
    min_block_bytes: int = 1 << 18
    max_block_bytes: int = 1 << 20
    pass_bytes: int = 16 << 20
    shard_bytes: int = 256 << 20
    save_seconds: float = 30.0


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


@dataclasses.dataclass(frozen=True)
class Task:
    """Passes over a block, whose records are made at once."""

    block: TextBlock
    passes: range

    @property
    def num_bytes(self) -> int:
        """Rough number of bytes of the text and the records."""
        return self.block.num_bytes * (1 + 2 * len(self.passes))


def make_units(files: Iterable[TextPath], limits: Limits) -> Iterator[Unit]:
    """Yields the units of files, in their order."""
    number = size = 0
    pending: list[TextPath] = []
    for path in files:
        pending.append(path)
        size += text_bytes(path)
        if size >= limits.unit_bytes:
            yield Unit(number, tuple(pending), size)
            pending, size = [], 0
            number += 1
    if pending:
        yield Unit(number, tuple(pending), size)


def text_bytes(path: TextPath) -> int:
    """Returns the size of a file's text, an estimate if it is compressed."""
    return size_of(path) * (COMPRESSION_RATIO if is_compressed(path) else 1)


def read_blocks(
    unit: Unit,
    config: PretrainingDataConfig,
    limits: Limits,
    oddities: collections.Counter[str] | None = None,
) -> Iterator[TextBlock]:
    """Reads the blocks of a unit; their numbers differ from other units'.

    Args:
      unit: the unit.
      config: how text is read and split.
      limits: sizes of blocks.
      oddities: gains counts of what is odd in the text.
    """
    block_bytes = limits.pass_bytes // config.passes("train")
    return make_blocks(
        read_corpus(unit.files, config, oddities),
        max(limits.min_block_bytes, min(limits.max_block_bytes, block_bytes)),
        heldout_fraction=config.heldout_fraction,
        seed=config.seed,
        first_index=unit.number * _MAX_BLOCKS,
    )


def unit_number(block_index: int) -> int:
    """Returns the number of the unit that a block is of."""
    return block_index // _MAX_BLOCKS


def divide_passes(
    block: TextBlock, config: PretrainingDataConfig, limits: Limits
) -> Iterator[Task]:
    """Yields the passes over a block, as many at once as memory allows."""
    most = max(1, 2 * limits.pass_bytes // max(block.num_bytes, 1))
    passes = range(config.passes(block.split))
    for first in passes[::most]:
        yield Task(block, passes[first : first + most])


def describe_inputs(
    files: list[TextPath], digest: Callable[[TextPath], str] = sha256
) -> list[dict[str, object]]:
    """Returns name, bytes and sha256 of each file.

    Local files are named by their paths below their common folder.

    Args:
      files: the files.
      digest: returns the sha256 of one.
    """
    local = [
        path.absolute() for path in files if isinstance(path, pathlib.Path)
    ]
    base = os.path.commonpath([path.parent for path in local]) if local else ""
    return [
        {
            "name": path
            if isinstance(path, str)
            else path.absolute().relative_to(base).as_posix(),
            "bytes": size_of(path),
            "sha256": digest(path),
        }
        for path in files
    ]
