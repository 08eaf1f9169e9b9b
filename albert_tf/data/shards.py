"""Shards of records: how the work is divided, and their files."""

from __future__ import annotations

import collections
import dataclasses
import math
import os
import pathlib
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.data.block_worker import SPLIT_TAGS, BlockTask, BlockWorker
from albert_tf.data.data_config import PretrainingDataConfig
from albert_tf.data.documents import TextBlock, make_blocks, read_corpus
from albert_tf.data.manifest import SPLITS
from albert_tf.data.text_files import (
    COMPRESSION_RATIO,
    TextPath,
    is_compressed,
    size_of,
)
from albert_tf.errors import InputError
from albert_tf.input_files import sha256
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
MAX_BLOCKS = 1 << 24

# masking -> low estimate of the bytes of records per byte of text and pass.
# Masked records of English text with 512 tokens have 1.7.
_MIN_RATES = {"dynamic": 0.4, "static": 1.0}

_MIN_SHARDS = 8

# Each has the lengths and the order of a file's records in memory.
_MAX_WRITERS = 8

_BUFFER_BYTES = 1 << 20

_SHUFFLE_TAG = 2  # distinct from the SPLIT_TAGS of the blocks' generators


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

    Counts of `ODDITIES` in the text are added to `oddities`.
    """
    block_bytes = limits.pass_bytes // config.passes("train")
    return make_blocks(
        read_corpus(group.files, config, oddities),
        max(limits.min_block_bytes, min(limits.max_block_bytes, block_bytes)),
        heldout_fraction=config.heldout_fraction,
        seed=config.seed,
        first_index=group.number * MAX_BLOCKS,
    )


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
      InputError: if `config.num_shards` is too low.
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
    turns out to be too low for the `sizes` of their scratch files, in bytes.
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


class ScratchShards:
    """Scratch files with the records of one split, one file per shard.

    In memory are at most the lengths of a shard's records, or the records of
    one block; the same holds for `write_shard`.

    Args:
      paths: the scratch files, which may exist.
      sizes: size of each file, in bytes; longer files are truncated.
      finished: shards whose scratch files are no longer needed.

    Raises:
      OSError: if a file that is needed is shorter than its size.
    """

    def __init__(
        self,
        paths: Sequence[pathlib.Path],
        sizes: Sequence[int],
        finished: Collection[int] = (),
    ):
        self.paths = paths
        self.sizes = list(sizes)
        for shard, (path, size) in enumerate(zip(paths, sizes, strict=True)):
            if shard in finished or size == 0:
                path.unlink(missing_ok=True)
                continue
            if path.stat().st_size < size:
                raise OSError(f"{path}: shorter than {size} bytes")
            os.truncate(path, size)

    def add(self, shard: int, lengths: np.ndarray, records: bytes) -> None:
        """Appends concatenated records of the given lengths to a shard."""
        if not len(lengths):
            return
        header = np.append(np.uint32(len(lengths)), lengths.astype(np.uint32))
        # Not kept open, as there may be more shards than file descriptors.
        with open(self.paths[shard], "ab") as file:
            file.write(header.tobytes())
            file.write(records)
        self.sizes[shard] += scratch_bytes(lengths, records)

    def sync(self) -> None:
        """Flushes the added records to disk."""
        for path, size in zip(self.paths, self.sizes, strict=True):
            if size:
                sync_file(path)


def write_shard(
    scratch: pathlib.Path,
    names: Sequence[str],
    config: PretrainingDataConfig,
    split: str,
    shard: int,
) -> list[dict[str, Any]]:
    """Writes the records of a shard's scratch file in random order.

    The file, of `ScratchShards`, may be missing if it is empty. The records are
    divided among TFRecord files of the given names in the same folder.

    Returns:
      The name, records, bytes and sha256 of each file.
    """
    scratch.touch()
    offsets, lengths = _find_records(scratch)
    seed = (config.seed, _SHUFFLE_TAG, SPLIT_TAGS[split], shard)
    order = np.random.default_rng(seed).permutation(len(lengths))
    descriptions = []
    with open(scratch, "rb") as file:
        for name, part in zip(
            names, np.array_split(order, len(names)), strict=True
        ):
            path = scratch.with_name(name)
            frames: Iterable[bytes] = (
                os.pread(file.fileno(), lengths[index], offsets[index])
                for index in part
            )
            if config.compress:
                frames = _compressed(frames)
            with open(path, "wb", _BUFFER_BYTES) as output:
                output.writelines(frames)
            descriptions.append(
                {
                    "name": path.name,
                    "records": len(part),
                    "bytes": path.stat().st_size,
                    "sha256": sha256(path),
                }
            )
    return descriptions


def _compressed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the content of a `.gz` file as TensorFlow writes it."""
    compressor = zlib.compressobj(wbits=16 + zlib.MAX_WBITS, memLevel=9)
    for piece in pieces:
        yield compressor.compress(piece)
    yield compressor.flush()


def scratch_bytes(lengths: np.ndarray, records: bytes) -> int:
    """Returns the size of records in a scratch file."""
    return 4 * (1 + len(lengths)) + len(records) if len(lengths) else 0


def _find_records(scratch: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    """Returns the offsets and lengths of the records in a scratch file.

    The whole file is read sequentially, so that it is in the page cache when
    the records are read in random order.
    """
    offsets, lengths = [np.zeros(0, np.int64)], [np.zeros(0, np.uint32)]
    with open(scratch, "rb") as file:
        while header := file.read(4):
            [number] = np.frombuffer(header, np.uint32)
            sizes = np.frombuffer(file.read(4 * int(number)), np.uint32)
            ends = file.tell() + np.cumsum(sizes, dtype=np.int64)
            offsets.append(ends - sizes)
            lengths.append(sizes)
            while left := int(ends[-1]) - file.tell():
                file.read(min(left, 1 << 20))
    return np.concatenate(offsets), np.concatenate(lengths)


def sync_file(path: pathlib.Path) -> None:
    """Flushes a file to disk."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
