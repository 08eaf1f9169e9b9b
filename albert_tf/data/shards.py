"""Division of the work into groups of files, blocks and shards of records."""

from __future__ import annotations

import collections
import dataclasses
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from albert_tf.data.block_worker import BlockTask, BlockWorker
from albert_tf.data.data_config import PretrainingDataConfig
from albert_tf.data.documents import (
    TextBlock,
    make_blocks,
    read_corpus,
)
from albert_tf.data.manifest import SPLITS
from albert_tf.data.text_files import (
    COMPRESSION_RATIO,
    TextPath,
    is_compressed,
    size_of,
)
from albert_tf.errors import InputError
from albert_tf.text.tokenizer_files import (
    MODEL_FILE,
    SETTINGS_FILE,
    WORDPIECE_FILE,
)

_SHARD_NAME = re.compile(
    rf"({'|'.join(SPLITS.values())})-\d+-of-\d+\.tfrecord(\.gz)?"
)
_MODEL_FILES = (MODEL_FILE, WORDPIECE_FILE)

# Upper bound of the blocks of a group, enough for a file of 4 TB.
_MAX_BLOCKS = 1 << 24

# masking -> low estimate of the bytes of records per byte of text and pass.
# Masked records of English text with 512 tokens have 1.7.
_MIN_RATES = {"dynamic": 0.4, "static": 1.0}

_MIN_SHARDS = 8

# Each has the lengths and the order of a file's records in memory.
_MAX_WRITERS = 8


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits on memory, file sizes and the work lost by an interruption.

    Attributes:
      group_bytes: text of a group of files; a larger file is its own group.
      min_block_bytes, max_block_bytes: bounds of the target size of a block of
        documents. Random next sentences come from the same block, so it should
        have many documents: 256 KiB are 70 articles of Wikipedia.
      pass_bytes: text of a block, times the passes over it that are made
        together. Their records, about twice the bytes, are in memory at once.
        A small block may have twice as many, and one long document any number.
      shard_bytes: maximum size of a record file.
      save_seconds: time after which the state is saved.
    """

    group_bytes: int = 64 << 20
    min_block_bytes: int = 1 << 18
    max_block_bytes: int = 1 << 20
    pass_bytes: int = 16 << 20
    shard_bytes: int = 256 << 20
    save_seconds: float = 30.0


@dataclasses.dataclass(frozen=True)
class FileGroup:
    """Consecutive text files, which are read independently of other groups.

    Attributes:
      number: index of the group.
      files: one large file, or several.
      text_bytes: estimated size of their text.
    """

    number: int
    files: tuple[TextPath, ...]
    text_bytes: int


def group_files(
    files: Iterable[TextPath], limits: Limits
) -> Iterator[FileGroup]:
    """Groups consecutive files."""
    number = size = 0
    pending: list[TextPath] = []
    for path in files:
        pending.append(path)
        size += size_of(path) * (
            COMPRESSION_RATIO if is_compressed(path) else 1
        )
        if size >= limits.group_bytes:
            yield FileGroup(number, tuple(pending), size)
            pending, size = [], 0
            number += 1
    if pending:
        yield FileGroup(number, tuple(pending), size)


def read_blocks(
    group: FileGroup,
    config: PretrainingDataConfig,
    limits: Limits,
    oddities: collections.Counter[str] | None = None,
) -> Iterator[TextBlock]:
    """Reads the blocks of a group, whose indices are unique among all groups.

    Args:
      group: the files.
      config: the settings.
      limits: sizes of blocks.
      oddities: counts of `ODDITIES` in the text are added to it.
    """
    block_bytes = limits.pass_bytes // config.passes("train")
    return make_blocks(
        read_corpus(group.files, config, oddities),
        max(limits.min_block_bytes, min(limits.max_block_bytes, block_bytes)),
        heldout_fraction=config.heldout_fraction,
        seed=config.seed,
        first_index=group.number * _MAX_BLOCKS,
    )


def group_number(block_index: int) -> int:
    """Returns the number of the group that a block belongs to."""
    return block_index // _MAX_BLOCKS


def read_tasks(
    group: FileGroup,
    config: PretrainingDataConfig,
    limits: Limits,
    oddities: collections.Counter[str],
) -> Iterator[BlockTask]:
    """Reads the tasks of a group: blocks, and the passes made together."""
    for block in read_blocks(group, config, limits, oddities):
        step = max(1, 2 * limits.pass_bytes // max(block.num_bytes, 1))
        passes = range(config.passes(block.split))
        for first in passes[::step]:
            yield BlockTask(block, passes[first : first + step])


def num_writers(config: PretrainingDataConfig) -> int:
    """Returns the number of record files that are written in parallel."""
    return min(config.num_workers, _MAX_WRITERS)


def plan_shards(
    config: PretrainingDataConfig, groups: Sequence[FileGroup], limits: Limits
) -> tuple[dict[str, int], int]:
    """Chooses the number of shards and estimates the disk space needed.

    Returns:
      Split -> number of shards, and a low estimate of the bytes needed. It has
      room for few scratch files, as each is removed when its record file has
      been written.

    Raises:
      InputError: If `config.num_shards` is too low.
    """
    text = sum(group.text_bytes for group in groups)
    heldout = config.heldout_fraction
    rate = _MIN_RATES[config.masking]
    if text > limits.pass_bytes:
        rate = _sample_rate(config, groups[0], limits)
    sizes = {"train": text * (1 - heldout) * rate * config.passes("train")}
    if heldout:
        sizes["heldout"] = text * heldout * _MIN_RATES["static"]
    minimum = {x: math.ceil(y / limits.shard_bytes) for x, y in sizes.items()}
    number = config.num_shards or max(_MIN_SHARDS, minimum["train"])
    if number < minimum["train"]:
        file_size = sizes["train"] / number / 1e6
        raise InputError(
            f"num_shards={number} would create files of about "
            f"{file_size:,.0f} MB; give at least {minimum['train']}, or leave "
            "it out"
        )
    num_shards = {"train": number}
    if heldout:
        num_shards["heldout"] = max(
            1, round(number * heldout), minimum["heldout"]
        )
    total = sum(sizes.values())
    return num_shards, int(total * (1 + min(1, num_writers(config) / number)))


def _sample_rate(
    config: PretrainingDataConfig, group: FileGroup, limits: Limits
) -> float:
    """Measures the bytes of records per byte of text on the first block."""
    small = dataclasses.replace(limits, max_block_bytes=limits.min_block_bytes)
    blocks = read_blocks(group, config, small)
    train = next((x for x in blocks if x.split == "train"), None)
    if train is None:
        return _MIN_RATES[config.masking]
    worker = BlockWorker(config, {"train": 1})
    [(_, joined)] = worker(BlockTask(train, range(1))).shards
    return len(joined) / train.num_bytes


def shard_files(
    config: PretrainingDataConfig,
    split: str,
    sizes: Sequence[int],
    limits: Limits,
) -> list[list[str]]:
    """Returns the names of the record files of each shard of a split.

    A shard has one file, or several if the number of shards that was planned
    turns out to be too low.

    Args:
      config: the settings.
      split: "train" or "heldout".
      sizes: size of each shard's scratch file, in bytes.
      limits: the maximum size of a record file.
    """
    files_per_shard = 1
    if split != "train" or config.num_shards is None:
        files_per_shard += int(max(sizes) / limits.shard_bytes)
    number = files_per_shard * len(sizes)
    suffix = ".tfrecord.gz" if config.compress else ".tfrecord"
    names = [
        f"{SPLITS[split]}-{shard:05d}-of-{number:05d}{suffix}"
        for shard in range(number)
    ]
    return [
        names[first : first + files_per_shard]
        for first in range(0, number, files_per_shard)
    ]


def is_shard(name: str) -> bool:
    """Returns whether a file name is that of a record file."""
    return _SHARD_NAME.fullmatch(name) is not None


def data_files(manifest: Mapping[str, Any]) -> list[str]:
    """Returns the names of a manifest's tokenizer and record files."""
    names = [
        file["name"]
        for split in manifest["splits"].values()
        for file in split["files"]
        # These files may be replaced, so do not trust the manifest.
        if is_shard(file["name"])
    ]
    model = manifest["tokenizer"]["file"]
    if model in _MODEL_FILES:
        names.insert(0, model)
    return [SETTINGS_FILE, *names]
