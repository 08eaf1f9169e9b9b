"""Records dealt out to shards, each shuffled when all records are there."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Sequence
from concurrent import futures

import numpy as np
import tensorflow as tf

from albert_tf.data.digest import sha256


class ShardWriter:
    """Writes the TFRecord files of one split.

    Records are first appended to a scratch file a shard, in the order they
    come. `finish` reads one shard at a time (a thread), shuffles it and writes
    it out, so that memory is bounded by the size of a shard.
    """

    def __init__(
        self, paths: Sequence[pathlib.Path], compress: bool, seed: Sequence[int]
    ):
        """Begins without records.

        Args:
          paths: the shards; the scratch files lie beside them.
          compress: write gzip.
          seed: of the shuffling.
        """
        self._paths = paths
        self._compress = compress
        self._seed = seed
        self._scratch_paths = [
            path.with_name(path.name + ".scratch") for path in self._paths
        ]
        self._lengths: list[list[np.ndarray]] = [[] for _ in self._paths]

    def add(self, shard: int, lengths: np.ndarray, records: bytes) -> None:
        """Appends records, given joined and by their lengths, to a shard."""
        # There may be more shards than files that can be open.
        with open(self._scratch_paths[shard], "ab") as file:
            file.write(records)
        self._lengths[shard].append(lengths)

    def finish(self, num_threads: int) -> Iterator[dict[str, object]]:
        """Writes the shards.

        Yields:
          A description of each file: name, records, bytes and sha256.
        """
        with futures.ThreadPoolExecutor(num_threads) as pool:
            yield from pool.map(self._write, range(len(self._paths)))

    def _write(self, shard: int) -> dict[str, object]:
        path, scratch = self._paths[shard], self._scratch_paths[shard]
        scratch.touch()
        records = memoryview(scratch.read_bytes())
        lengths = np.concatenate(
            [np.zeros(0, np.uint32), *self._lengths[shard]]
        )
        ends = np.cumsum(lengths, dtype=np.int64)
        order = np.random.default_rng((*self._seed, shard)).permutation(
            len(lengths)
        )
        options = "GZIP" if self._compress else ""
        with tf.io.TFRecordWriter(str(path), options) as writer:
            for index in order:
                end = ends[index]
                writer.write(bytes(records[end - lengths[index] : end]))
        scratch.unlink()
        return {
            "name": path.name,
            "records": len(lengths),
            "bytes": path.stat().st_size,
            "sha256": sha256(path),
        }
