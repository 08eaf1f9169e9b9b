"""Groups of text files, blocks of their documents, and shards of records."""

from __future__ import annotations

import collections
import dataclasses
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from albert_tf.errors import InputError
from albert_tf.pretraining.block_worker import BlockTask, BlockWorker
from albert_tf.pretraining.data_config import PretrainingDataConfig
from albert_tf.pretraining.documents import (
    TextBlock,
    make_blocks,
    read_corpus,
)
from albert_tf.pretraining.manifest import SPLITS
from albert_tf.pretraining.text_files import (
    COMPRESSION_RATIO,
    TextPath,
    is_compressed,
    size_of,
)
from albert_tf.text.tokenizer_files import (
    MODEL_FILE,
    SETTINGS_FILE,
    WORDPIECE_FILE,
)

_SHARD_NAME = re.compile(
    rf"({'|'.join(SPLITS.values())})-\d+-of-\d+\.tfrecord(\.gz)?"
)
_MODEL_FILES = (MODEL_FILE, WORDPIECE_FILE)

# More than the blocks of a group, whose one file may have 4 TB.
_MAX_BLOCKS = 1 << 24

# masking -> bytes of records for a byte of text and a pass, rather low: masked
# records of English text have 1.7 at 512 tokens, less what is dropped.
_LEAST_RATES = {"dynamic": 0.4, "static": 1.0}

_LEAST_SHARDS = 8

# Each holds the lengths and the order of a file's records in memory.
_MOST_WRITERS = 8


@dataclasses.dataclass(frozen=True)
class Limits:
    """Sizes that bound memory, files and the work that an interruption loses.

    Attributes:
      group_bytes: files are added to a group up to this many bytes of text.
      min_block_bytes, max_block_bytes: least size of a block of documents.
        Random next sentences come from the same block, so it should hold many
        documents: 256 KiB are 70 articles of Wikipedia.
      pass_bytes: text of a block, times the passes over it. Their records,
        about twice the bytes, are in memory at once. A block of fewer bytes
        than the others may have twice as many, one long document any number.
      shard_bytes: size of a record file that is not exceeded.
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
    """Consecutive text files, which are read independently of all others.

    Attributes:
      number: the number among all groups, from 0.
      files: one large file, or several.
      text_bytes: estimate of the size of their text.
    """

    number: int
    files: tuple[TextPath, ...]
    text_bytes: int


def group_files(
    files: Iterable[TextPath], limits: Limits
) -> Iterator[FileGroup]:
    """Yields groups of files, in their order."""
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
    """Reads the blocks of a group; no two groups have a block of one number.

    Args:
      group: the files.
      config: how text is read and split.
      limits: sizes of blocks.
      oddities: gains counts of what is odd in the text.
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
    """Reads the blocks of a group, with as many passes as memory allows.

    Args:
      group: the files.
      config: see `read_blocks`.
      limits: sizes of blocks, and of the text of the passes of a task.
      oddities: see `read_blocks`.
    """
    for block in read_blocks(group, config, limits, oddities):
        most = max(1, 2 * limits.pass_bytes // max(block.num_bytes, 1))
        passes = range(config.passes(block.split))
        for first in passes[::most]:
            yield BlockTask(block, passes[first : first + most])


def num_writers(config: PretrainingDataConfig) -> int:
    """Returns the number of record files that are written at once."""
    return min(config.num_workers, _MOST_WRITERS)


def plan_shards(
    config: PretrainingDataConfig, groups: Sequence[FileGroup], limits: Limits
) -> tuple[dict[str, int], int]:
    """Returns split -> number of shards, and an estimate of the bytes needed.

    The estimate is rather low. A scratch file is removed when its record file
    has been written, so few of those are added.

    Raises:
      InputError: the given number of shards is too low.
    """
    text = sum(group.text_bytes for group in groups)
    heldout = config.heldout_fraction
    rate = _LEAST_RATES[config.masking]
    if text > limits.pass_bytes:
        rate = _sample_rate(config, groups[0], limits)
    sizes = {"train": text * (1 - heldout) * rate * config.passes("train")}
    if heldout:
        sizes["heldout"] = text * heldout * _LEAST_RATES["static"]
    least = {x: math.ceil(y / limits.shard_bytes) for x, y in sizes.items()}
    number = config.num_shards or max(_LEAST_SHARDS, least["train"])
    if number < least["train"]:
        each = sizes["train"] / number / 1e6
        raise InputError(
            f"num_shards={number} would make files of about {each:,.0f} MB; "
            f"give at least {least['train']}, or leave it out"
        )
    num_shards = {"train": number}
    if heldout:
        num_shards["heldout"] = max(
            1, round(number * heldout), least["heldout"]
        )
    total = sum(sizes.values())
    return num_shards, int(total * (1 + min(1, num_writers(config) / number)))


def _sample_rate(
    config: PretrainingDataConfig, group: FileGroup, limits: Limits
) -> float:
    """Returns the bytes of records for a byte of text, of the first block."""
    small = dataclasses.replace(limits, max_block_bytes=limits.min_block_bytes)
    blocks = read_blocks(group, config, small)
    train = next((x for x in blocks if x.split == "train"), None)
    if train is None:
        return _LEAST_RATES[config.masking]
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

    It is one, or several where the number of shards was estimated too low.

    Args:
      config: the settings.
      split: "train" or "heldout".
      sizes: bytes of each shard as a scratch file.
      limits: the most bytes of a file.
    """
    parts = 1
    if split != "train" or config.num_shards is None:
        parts += int(max(sizes) / limits.shard_bytes)
    number = parts * len(sizes)
    suffix = ".tfrecord.gz" if config.compress else ".tfrecord"
    names = [
        f"{SPLITS[split]}-{shard:05d}-of-{number:05d}{suffix}"
        for shard in range(number)
    ]
    return [names[x : x + parts] for x in range(0, number, parts)]


def is_shard(name: str) -> bool:
    """Returns whether a file has the name of a record file."""
    return _SHARD_NAME.fullmatch(name) is not None


def data_files(manifest: Mapping[str, Any]) -> list[str]:
    """Returns the names of the tokenizer's and record files of a manifest."""
    names = [
        file["name"]
        for split in manifest["splits"].values()
        for file in split["files"]
        # This list decides which files may be replaced: only shards.
        if is_shard(file["name"])
    ]
    # 0.1.0 did not write it, and had one kind of tokenizer.
    model = manifest.get("tokenizer", {}).get("file")
    model = model if model in _MODEL_FILES else MODEL_FILE
    return [model, SETTINGS_FILE, *names]
