"""Shards of records: how many there are, scratch files, and their shuffling."""

from __future__ import annotations

import dataclasses
import math
import os
import pathlib
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from albert_tf.errors import InputError
from albert_tf.files import sha256
from albert_tf.pretraining.block_worker import SPLIT_TAGS, BlockWorker
from albert_tf.pretraining.data_config import PretrainingDataConfig
from albert_tf.pretraining.manifest import shard_names
from albert_tf.pretraining.units import Limits, Unit, read_blocks

# masking -> bytes of records for a byte of text and a pass, rather low: masked
# records of English text have 1.7 at 512 tokens, less what is dropped.
_LEAST_RATES = {"dynamic": 0.4, "static": 1.0}

_LEAST_SHARDS = 8
_BUFFER_BYTES = 1 << 20

_SHUFFLE_TAG = 2  # beside the split tags 0 and 1 of the blocks' generators

# Each holds the lengths and the order of a file's records in memory.
_MOST_WRITERS = 8


def num_writers(config: PretrainingDataConfig) -> int:
    """Returns the number of record files that are written at once."""
    return min(config.num_workers, _MOST_WRITERS)


def plan_shards(
    config: PretrainingDataConfig, units: list[Unit], limits: Limits
) -> tuple[dict[str, int], int]:
    """Returns split -> number of shards, and an estimate of the bytes needed.

    The estimate is rather low. A scratch file goes when its record file has
    been written, so few of those come on top.

    Raises:
      InputError: the number of shards that was given is too low.
    """
    text = sum(unit.text_bytes for unit in units)
    heldout = config.heldout_fraction
    rate = _LEAST_RATES[config.masking]
    if text > limits.pass_bytes:
        rate = _sample_rate(config, units[0], limits)
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
    config: PretrainingDataConfig, unit: Unit, limits: Limits
) -> float:
    """Returns the bytes of records for a byte of text, of the first block."""
    small = dataclasses.replace(limits, max_block_bytes=limits.min_block_bytes)
    blocks = read_blocks(unit, config, small)
    train = next((x for x in blocks if x.split == "train"), None)
    if train is None:
        return _LEAST_RATES[config.masking]
    records = BlockWorker(config, {"train": 1})(train, range(1))
    [(_, joined)] = records.shards
    return len(joined) / train.num_bytes


class ScratchShards:
    """Records of one split, appended to a scratch file for each shard.

    Neither this nor `write_shard` holds more than the lengths of a shard's
    records in memory, or the records of one block.
    """

    def __init__(
        self,
        paths: Sequence[pathlib.Path],
        sizes: Sequence[int],
        finished: Collection[int] = (),
    ):
        """Goes on with files that may exist.

        Args:
          paths: the scratch files.
          sizes: their bytes; what comes after is removed.
          finished: the shards whose scratch files are not needed any more.

        Raises:
          OSError: another file is shorter.
        """
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
        """Appends records, given joined and by their lengths, to a shard."""
        if not len(lengths):
            return
        header = np.append(np.uint32(len(lengths)), lengths.astype(np.uint32))
        # Not kept open: there may be more shards than a process may open files.
        with open(self.paths[shard], "ab") as file:
            file.write(header.tobytes())
            file.write(records)
        self.sizes[shard] += scratch_bytes(lengths, records)

    def sync(self) -> None:
        """Waits until the disk has what was added."""
        for path, size in zip(self.paths, self.sizes, strict=True):
            if size:
                with open(path, "rb") as file:
                    os.fsync(file.fileno())


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
    names = shard_names(split, parts * len(sizes), config.compress)
    return [names[x : x + parts] for x in range(0, len(names), parts)]


def write_shard(
    scratch: pathlib.Path,
    names: Sequence[str],
    config: PretrainingDataConfig,
    split: str,
    shard: int,
) -> list[dict[str, Any]]:
    """Writes the records of a scratch file in random order.

    Args:
      scratch: a file of `ScratchShards`, which need not exist if it is empty.
      names: names of the TFRecord files beside it, among which the records
        are divided.
      config: the settings.
      split: "train" or "heldout".
      shard: number of the shard in its split.

    Returns:
      A description of each file: name, records, bytes and sha256.
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
    """Yields the content of a `.gz` file, the same as TensorFlow's writer."""
    compressor = zlib.compressobj(wbits=16 + zlib.MAX_WBITS, memLevel=9)
    for piece in pieces:
        yield compressor.compress(piece)
    yield compressor.flush()


def scratch_bytes(lengths: np.ndarray, records: bytes) -> int:
    """Returns the bytes that records take in a scratch file."""
    return 4 * (1 + len(lengths)) + len(records) if len(lengths) else 0


def _find_records(scratch: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    """Returns the offsets and lengths of the records in a scratch file.

    The file is read as a whole, in order, so that the system has it in its
    cache when the records are read in another order.
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
