"""Data that are being made, and the state from which a killed job goes on."""

from __future__ import annotations

import collections
import json
import os
import pathlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from albert_tf.files import write_atomically
from albert_tf.folders import job_file
from albert_tf.pretraining.block_worker import BlockRecords
from albert_tf.pretraining.shards import ScratchShards
from albert_tf.pretraining.units import Task, Unit, unit_number

# Saving takes at most this share of the time.
_SAVING_SHARE = 0.05


class Job:
    """Records in scratch files, finished record files, and statistics.

    Attributes:
      unit: number of units of input that are done.
      tasks: number of tasks of the next unit that are done.
      num_bytes: size of the text of all that.
      oddities: counts of what is odd in the text of the units that are done.
      counts: split -> sums over its blocks.
      label_counts: split -> int64 `[vocab_size]`, how often each id is a label.
      files: split -> shard -> descriptions of the files made of it.
      scratch: split -> the scratch files.
      is_saved: whether there is a state to go on from.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        name: str,
        num_shards: Mapping[str, int],
        vocab_size: int,
        save_seconds: float,
    ):
        """Goes on from what was saved, or starts.

        Args:
          folder: the `temporary_folder` of the data.
          name: its job.
          num_shards: split -> number of scratch files.
          vocab_size: number of ids.
          save_seconds: least time between two savings.
        """
        self._folder = folder
        self._name = name
        self._num_shards = num_shards
        self._save_seconds = save_seconds
        self._next_save = time.monotonic() + save_seconds
        self._oddities_of_unit: dict[int, collections.Counter[str]] = {}
        none = dict.fromkeys(num_shards, {})
        start = {
            "unit": 0,
            "tasks": 0,
            "num_bytes": 0,
            "oddities": {},
            "counts": none,
            "label_counts": {x: [0] * vocab_size for x in num_shards},
            "files": none,
            "sizes": {x: [0] * number for x, number in num_shards.items()},
        }
        self.is_saved = job_file(folder).exists()
        try:
            text = job_file(folder).read_text() if self.is_saved else ""
            state = json.loads(text.partition("\n")[2] or "null")
            self._restore(state or start)
        except (OSError, ValueError):
            # The machine went down before its disk had everything.
            job_file(folder).unlink()
            self.is_saved = False
            self._restore(start)

    def _restore(self, state: dict[str, Any]) -> None:
        self.unit, self.tasks = state["unit"], state["tasks"]
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
                    for shard in range(number)
                ],
                state["sizes"][split],
                finished=self.files[split],
            )
            for split, number in self._num_shards.items()
        }

    def oddities_of(self, unit: Unit) -> collections.Counter[str]:
        """Returns the counts of a unit that is about to be read."""
        return self._oddities_of_unit.setdefault(
            unit.number, collections.Counter()
        )

    def skip(self, unit: Unit, tasks: Iterator[Task]) -> None:
        """Skips those tasks of a unit that are done."""
        if unit.number == self.unit:
            for _ in range(self.tasks):
                next(tasks)

    def add(self, block: BlockRecords) -> None:
        """Adds the records of the next task."""
        number = unit_number(block.index)
        if number > self.unit:
            self._finish_unit()
        for shard, (lengths, records) in enumerate(block.shards):
            self.scratch[block.split].add(shard, lengths, records)
        self.counts[block.split].update(block.counts)
        self.label_counts[block.split] += block.label_counts
        self.oddities.update(block.oddities)
        self.num_bytes += block.num_bytes
        self.tasks += 1
        self._save_if_due()

    def finish_text(self, num_units: int) -> None:
        """Ends the last unit."""
        if self.unit < num_units:
            self._finish_unit()
            self._save_if_due()

    def _finish_unit(self) -> None:
        self.oddities.update(self._oddities_of_unit.pop(self.unit))
        self.unit += 1
        self.tasks = 0

    def finish_shard(
        self, split: str, shard: int, files: list[dict[str, Any]]
    ) -> None:
        """Takes files in the place of a scratch file, which is removed."""
        self.files[split][shard] = files
        if self.is_saved:
            for file in files:
                _sync(self._folder / str(file["name"]))
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
        state = {
            "unit": self.unit,
            "tasks": self.tasks,
            "num_bytes": self.num_bytes,
            "oddities": self.oddities,
            "counts": self.counts,
            "label_counts": {
                split: counts.tolist()
                for split, counts in self.label_counts.items()
            },
            "files": self.files,
            "sizes": {
                split: scratch.sizes for split, scratch in self.scratch.items()
            },
        }
        write_atomically(
            job_file(self._folder), f"{self._name}\n{json.dumps(state)}"
        )
        self.is_saved = True


def _sync(path: pathlib.Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())
