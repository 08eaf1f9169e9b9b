"""The state of the creation of a data set, from which it resumes."""

from __future__ import annotations

import collections
import itertools
import json
import pathlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.data.block_worker import BlockRecords, BlockTask
from albert_tf.data.data_config import PretrainingDataConfig
from albert_tf.data.shards import (
    MAX_BLOCKS,
    FileGroup,
    Limits,
    ScratchShards,
    read_tasks,
    sync_file,
)
from albert_tf.files import write_atomically
from albert_tf.folders import job_file
from albert_tf.input_files import parse_json, read_text

_MAX_STATE = 4 << 30

# Saving takes at most this share of the time.
_SAVING_SHARE = 0.05

_SAVED_ATTRIBUTES = (
    "groups_done",
    "tasks_done",
    "num_bytes",
    "oddities",
    "counts",
    "label_counts",
    "files",
)


class CreationState:
    """Scratch files, finished record files and statistics.

    Args:
      folder: the `temporary_folder` of the data set.
      name: fingerprint of the job.
      num_shards: split -> number of scratch files.
      vocab_size: size of the vocabulary.
      save_seconds: minimum time between two saves.

    Attributes:
      is_saved: whether there is a state to resume from.
      groups_done: number of file groups that are done.
      tasks_done: number of tasks of the next group that are done.
      num_bytes: size of the text that is done, in UTF-8.
      oddities: counts of `ODDITIES` in the text that is done.
      counts: split -> statistics, summed over its blocks.
      label_counts: split -> int64 `[vocab_size]`, how often each id is a label.
      files: split -> shard -> descriptions of its record files.
      scratch: split -> its scratch files.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        name: str,
        num_shards: Mapping[str, int],
        vocab_size: int,
        save_seconds: float,
    ):
        self._folder = folder
        self._name = name
        self._save_seconds = save_seconds
        self._next_save = time.monotonic() + save_seconds
        self._oddities_of_group: dict[int, collections.Counter[str]] = {}
        start = {
            "groups_done": 0,
            "tasks_done": 0,
            "num_bytes": 0,
            "oddities": {},
            "counts": {split: {} for split in num_shards},
            "label_counts": {split: [0] * vocab_size for split in num_shards},
            "files": {split: {} for split in num_shards},
            "sizes": {x: [0] * number for x, number in num_shards.items()},
        }
        saved = job_file(folder)
        self.is_saved = saved.exists()
        try:
            if self.is_saved:
                text = read_text(saved, limit=_MAX_STATE)
                _, _, state = text.partition("\n")
                self._restore(parse_json(state, str(saved)))
            else:
                self._restore(start)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            # The machine crashed before everything was on disk.
            saved.unlink()
            self.is_saved = False
            self._restore(start)

    def _restore(self, state: dict[str, Any]) -> None:
        self.groups_done = state["groups_done"]
        self.tasks_done = state["tasks_done"]
        self.num_bytes = state["num_bytes"]
        self.oddities = collections.Counter(state["oddities"])
        self.counts = {
            split: collections.Counter(counts)
            for split, counts in state["counts"].items()
        }
        self.label_counts = {
            split: np.array(counts, np.int64)
            for split, counts in state["label_counts"].items()
        }
        self.files: dict[str, dict[int, list[dict[str, Any]]]] = {
            split: {int(shard): found for shard, found in files.items()}
            for split, files in state["files"].items()
        }
        self.scratch = {
            split: ScratchShards(
                [
                    self._folder / f"{split}-{shard:05d}.scratch"
                    for shard in range(len(sizes))
                ],
                sizes,
                finished=self.files[split],
            )
            for split, sizes in state["sizes"].items()
        }

    def read_tasks(
        self,
        groups: Sequence[FileGroup],
        config: PretrainingDataConfig,
        limits: Limits,
    ) -> Iterator[BlockTask]:
        """Reads the tasks that are not done yet."""
        done = self.tasks_done
        for group in groups[self.groups_done :]:
            oddities: collections.Counter[str] = collections.Counter()
            self._oddities_of_group[group.number] = oddities
            tasks = read_tasks(group, config, limits, oddities)
            yield from itertools.islice(tasks, done, None)
            done = 0

    def add(self, block: BlockRecords) -> None:
        """Adds the records and statistics of the next task."""
        # Groups of files without text have no block.
        while block.index // MAX_BLOCKS > self.groups_done:
            self._finish_group()
        for shard, (lengths, records) in enumerate(block.shards):
            self.scratch[block.split].add(shard, lengths, records)
        self.counts[block.split].update(block.counts)
        self.label_counts[block.split] += block.label_counts
        self.oddities.update(block.oddities)
        self.num_bytes += block.num_bytes
        self.tasks_done += 1
        self._save_if_due()

    def finish_text(self, num_groups: int) -> None:
        """Marks the last groups as done."""
        if self.groups_done < num_groups:
            while self.groups_done < num_groups:
                self._finish_group()
            self._save_if_due()

    def _finish_group(self) -> None:
        self.oddities.update(self._oddities_of_group.pop(self.groups_done))
        self.groups_done += 1
        self.tasks_done = 0

    def finish_shard(
        self, split: str, shard: int, files: list[dict[str, Any]]
    ) -> None:
        """Adds the record files of a shard and removes its scratch file."""
        self.files[split][shard] = files
        if self.is_saved:
            for file in files:
                sync_file(self._folder / file["name"])
            self._save()
        self.scratch[split].paths[shard].unlink()

    def _save_if_due(self) -> None:
        started = time.monotonic()
        if started < self._next_save:
            return
        for scratch in self.scratch.values():
            scratch.sync()
        self._save()
        ended = time.monotonic()
        self._next_save = ended + max(
            self._save_seconds, (ended - started) / _SAVING_SHARE
        )

    def _save(self) -> None:
        state = {name: getattr(self, name) for name in _SAVED_ATTRIBUTES}
        state["sizes"] = {x: y.sizes for x, y in self.scratch.items()}
        text = json.dumps(state, default=np.ndarray.tolist)
        write_atomically(job_file(self._folder), f"{self._name}\n{text}")
        self.is_saved = True
