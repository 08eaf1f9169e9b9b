"""The metrics of a run as `metrics.jsonl` and TensorBoard scalars."""

from __future__ import annotations

import contextlib
import json
import math
import os
import socket
import time
from collections.abc import Iterator, Mapping

import tensorflow as tf

from albert_tf.training.files import PARTIAL, read_text, write_atomically

FILE = "metrics.jsonl"
TENSORBOARD_FOLDER = "tensorboard"


class MetricsLog:
    """Writes metrics into the folder of a run.

    A line of `metrics.jsonl` is `{"step": 100, "time": <Unix seconds>,
    "split": "train", "values": {...}}`; a value that is not finite is null.
    TensorBoard's event files are in `tensorboard/<split>`. A resumed run cuts
    both behind the step it resumes from, so curves have no step twice; a
    TensorBoard that is running then has to be started again.

    Args:
      run_dir: the folder of the run; created where there is none.
      step: the step that the run (re)starts from; later lines are cut.
    """

    def __init__(self, run_dir: str | os.PathLike, step: int = 0):
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

        Args:
          step: updates done so far.
          split: "train", "eval" or the name of another set.
          values: metrics by name.
          details: further values by name, for TensorBoard only.
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

    def __enter__(self) -> MetricsLog:
        return self

    def __exit__(self, *exception) -> None:
        self.close()


def read_metrics(run_dir: str | os.PathLike) -> list[dict]:
    """Reads the lines of a run's `metrics.jsonl`, in order.

    A last line that a killed process left unfinished is passed over.
    """
    path = os.path.join(os.fspath(run_dir), FILE)
    if not tf.io.gfile.exists(path):
        return []
    return [json.loads(line) for line in _complete_lines(path)]


def _complete_lines(path: str) -> list[str]:
    # What follows the last newline is empty or was never finished.
    return read_text(path).split("\n")[:-1]


def _cut_lines(path: str, step: int) -> None:
    if not tf.io.gfile.exists(path):
        return
    kept = [x for x in _complete_lines(path) if json.loads(x)["step"] <= step]
    write_atomically(path, "".join(f"{line}\n" for line in kept))


def _new_event_file(folder: str) -> tf.io.TFRecordWriter:
    """Starts an event file: records of event protos, a version first.

    Written here and not by `tf.summary`, which needs TensorBoard installed.
    """
    tf.io.gfile.makedirs(folder)
    now = time.time()
    # A resumed run starts another file; TensorBoard reads them in this order.
    name = f"events.out.tfevents.{now:.6f}.{socket.gethostname()}"
    writer = tf.io.TFRecordWriter(os.path.join(folder, name))
    version = tf.compat.v1.Event(wall_time=now, file_version="brain.Event:2")
    writer.write(version.SerializeToString())
    return writer


def read_events(path: str | os.PathLike) -> Iterator[tf.compat.v1.Event]:
    """Yields the events of a TensorBoard file.

    A last one that a killed process left unfinished is passed over.
    """
    records = tf.data.TFRecordDataset(os.fspath(path)).as_numpy_iterator()
    with contextlib.suppress(tf.errors.DataLossError):
        for record in records:
            yield tf.compat.v1.Event.FromString(record)


def _cut_events(path: str, step: int) -> None:
    """Rewrites an event file without the events behind `step`."""
    kept = [event for event in read_events(path) if event.step <= step]
    # No ".tfevents." in the name: TensorBoard is not to read it.
    partial = os.path.join(os.path.dirname(path), "cut" + PARTIAL)
    with tf.io.TFRecordWriter(partial) as writer:
        for event in kept:
            writer.write(event.SerializeToString())
    tf.io.gfile.rename(partial, path, overwrite=True)
