"""Metrics of a run: aggregation, `metrics.jsonl` and TensorBoard."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import socket
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.files import PARTIAL, write_atomically
from albert_tf.input_files import (
    check_regular,
    exists,
    parse_object,
    read_bytes,
)
from albert_tf.schema import typed
from albert_tf.training.config import TrainingConfig
from albert_tf.training.evaluation import means
from albert_tf.training.loss import TOKENS
from albert_tf.training.progress import Progress

_logger = logging.getLogger(__name__)

FILE = "metrics.jsonl"
TENSORBOARD_FOLDER = "tensorboard"
# Of a log; a million lines take less.
_MAX_BYTES = 1 << 30


class MetricsAccumulator:
    """Means and rates of the steps since the last log line."""

    def __init__(self, batch_size: int):
        self._batch_size = batch_size
        self._rows: list[np.ndarray] = []
        self._seconds = self._waited = 0.0

    def update(self, rows: np.ndarray, seconds: float, waited: float) -> None:
        """Adds the results of steps.

        Args:
          rows: float `[steps, rows, 2]`, see `TrainStep`.
          seconds: wall time of the steps.
          waited: the part of it that was spent waiting for batches.
        """
        self._rows.append(rows)
        self._seconds += seconds
        self._waited += waited

    def result(self, names: Sequence[str]) -> dict[str, float]:
        """Returns means and rates since the last call, and resets them.

        `loss` and `gradient_norm` are means over steps, the other metrics
        weighted means over the examples of all steps. `names` are those of the
        rows.
        """
        # Summed at once, so that rounding does not depend on the launches.
        rows = np.concatenate(self._rows)
        totals = np.asarray(np.sum(rows, axis=0, dtype=np.float64))
        sums: dict[str, np.ndarray] = dict(zip(names, totals, strict=True))
        tokens = sums.pop(TOKENS, None)
        values = means(sums)
        examples = len(rows) * self._batch_size
        values["examples_per_second"] = examples / self._seconds
        if tokens is not None:
            values["tokens_per_second"] = float(tokens[0]) / self._seconds
        values["input_wait_share"] = min(1.0, self._waited / self._seconds)
        self._rows, self._seconds, self._waited = [], 0.0, 0.0
        return values


class MetricsLog:
    """Writes metrics to the folder of a run.

    A line of `metrics.jsonl` is `{"step": 100, "time": <Unix seconds>,
    "split": "train", "values": {...}}`; non-finite values are null.
    TensorBoard's event files are in `tensorboard/<split>`. Resuming a run
    truncates both after the step that it resumes from, so that no step appears
    twice; a running TensorBoard must then be restarted.

    Args:
      run_dir: the folder of the run; created if necessary.
      step: the step that the run (re)starts from; later lines are removed.
    """

    def __init__(self, run_dir: str | os.PathLike[str], step: int = 0):
        run_dir = os.fspath(run_dir)
        tf.io.gfile.makedirs(run_dir)
        self._path = os.path.join(run_dir, FILE)
        self._tensorboard = os.path.join(run_dir, TENSORBOARD_FOLDER)
        self._writers: dict[str, tf.io.TFRecordWriter] = {}
        _cut_lines(self._path, step)
        pattern = os.path.join(self._tensorboard, "*", "events.out.*")
        for path in tf.io.gfile.glob(pattern):
            _cut_events(path, step)

    def write(
        self,
        step: int,
        split: str,
        values: Mapping[str, float],
        details: Mapping[str, float] | None = None,
    ) -> None:
        """Appends the values of one step and flushes them.

        `split` is "train", "eval" or the name of another data set; `details`
        are additional values, only for TensorBoard.
        """
        line = {
            "step": step,
            "time": round(time.time(), 3),
            "split": split,
            "values": {
                name: value if math.isfinite(value) else None
                for name, value in values.items()
            },
        }
        with tf.io.gfile.GFile(self._path, "a") as file:
            file.write(json.dumps(line) + "\n")
        self._write_event(step, split, {**values, **(details or {})})

    def _write_event(self, step, split, values):
        if split not in self._writers:
            self._writers[split] = _new_event_file(
                os.path.join(self._tensorboard, split)
            )
        scalars = [
            tf.compat.v1.Summary.Value(tag=name, simple_value=value)
            for name, value in values.items()
        ]
        event = tf.compat.v1.Event(
            wall_time=time.time(),
            step=step,
            summary=tf.compat.v1.Summary(value=scalars),
        )
        self._writers[split].write(event.SerializeToString())
        self._writers[split].flush()

    def close(self) -> None:
        """Closes the event files."""
        for writer in self._writers.values():
            writer.close()


def read_metrics(run_dir: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Reads the lines of a run's `metrics.jsonl`, in order.

    An incomplete last line, of a killed process, is skipped. Other invalid
    lines are skipped with a warning.
    """
    path = os.path.join(os.fspath(run_dir), FILE)
    lines = []
    for number, text in enumerate(_complete_lines(path), 1):
        try:
            lines.append(_parse(text, f"{path}:{number}"))
        except InputError as error:
            _logger.warning("%s; skipping this line", error)
    return lines


def _complete_lines(path: str) -> list[bytes]:
    if not exists(path):
        return []
    # The text after the last newline is empty or incomplete.
    return read_bytes(path, limit=_MAX_BYTES).split(b"\n")[:-1]


def _parse(text: bytes, source: str) -> dict[str, Any]:
    """Parses a line of `metrics.jsonl`; an invalid one is an `InputError`."""
    line = parse_object(text, source)
    for name, kind in (
        ("step", int),
        ("time", float),
        ("split", str),
        ("values", dict),
    ):
        if typed(line, name, kind, source=source) is None:
            raise InputError(f"{source}: no {name}")
    for name in line["values"]:
        typed(line["values"], name, float, source=source)
    return line


def _cut_lines(path: str, step: int) -> None:
    """Removes the lines after a step; keeps invalid lines."""
    kept = []
    for line in _complete_lines(path):
        try:
            after = _parse(line, path)["step"] > step
        except InputError:
            after = False
        if not after:
            kept.append(line)
    if exists(path):
        write_atomically(path, b"".join(line + b"\n" for line in kept))


def _new_event_file(folder: str) -> tf.io.TFRecordWriter:
    """Creates an event file and writes the file version.

    `tf.summary` would require TensorBoard to be installed.
    """
    tf.io.gfile.makedirs(folder)
    now = time.time()
    # A resumed run creates another file; TensorBoard reads them by name.
    name = f"events.out.tfevents.{now:.6f}.{socket.gethostname()}"
    writer = tf.io.TFRecordWriter(os.path.join(folder, name))
    version = tf.compat.v1.Event(wall_time=now, file_version="brain.Event:2")
    writer.write(version.SerializeToString())
    return writer


def read_events(path: str | os.PathLike[str]) -> Iterator[tf.compat.v1.Event]:
    """Yields the events of a TensorBoard file.

    An incomplete last event, of a killed process, is skipped.
    """
    check_regular(path)
    records = tf.data.TFRecordDataset(os.fspath(path)).as_numpy_iterator()
    with contextlib.suppress(tf.errors.DataLossError):
        for record in records:
            yield tf.compat.v1.Event.FromString(record)


def _cut_events(path: str, step: int) -> None:
    """Rewrites an event file without the events after `step`."""
    kept = [event for event in read_events(path) if event.step <= step]
    # No ".tfevents." in the name, so that TensorBoard does not read it.
    # A name that nobody knows before, as TensorFlow follows links.
    name = f"{uuid.uuid4().hex}{PARTIAL}"
    partial = os.path.join(os.path.dirname(path), name)
    with tf.io.TFRecordWriter(partial) as writer:
        for event in kept:
            writer.write(event.SerializeToString())
    tf.io.gfile.rename(partial, path, overwrite=True)


class TrainingLog:
    """Shows the progress of a run and writes its metrics.

    Workers other than the chief log nothing. Without `run_dir`, metrics are
    shown, but not written. `step` is what the run (re)starts from.
    """

    def __init__(
        self,
        config: TrainingConfig,
        run_dir: str | os.PathLike[str] | None,
        step: int,
        chief: bool,
    ):
        self._progress = progress = Progress(
            config.num_train_steps, step, visible=chief
        )
        self.advance, self.note = progress.advance, progress.note
        self.end_at = progress.end_at
        self._metrics = None
        if chief and run_dir is not None:
            self._metrics = MetricsLog(run_dir, step)

    def report(
        self,
        step: int,
        split: str,
        values: Mapping[str, float],
        details: Mapping[str, float] | None = None,
    ) -> None:
        """Shows and writes metrics; see `MetricsLog.write`."""
        self._progress.report(step, split, values)
        if self._metrics is not None:
            self._metrics.write(step, split, values, details)

    def close(self) -> None:
        """Closes the progress bar and the files."""
        self._progress.close()
        if self._metrics is not None:
            self._metrics.close()
