"""Metrics of a run: their means, the terminal, and the files of the run."""

from __future__ import annotations

import contextlib
import json
import math
import os
import socket
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from albert_tf.files import PARTIAL, read_text, write_atomically
from albert_tf.training.config import TrainingConfig
from albert_tf.training.evaluation import means
from albert_tf.training.loss import TOKENS

FILE = "metrics.jsonl"
TENSORBOARD_FOLDER = "tensorboard"


class Interval:
    """Means and rates of the steps since the last report.

    Args:
      batch_size: examples of a global batch.
    """

    def __init__(self, batch_size: int):
        self._batch_size = batch_size
        self._reset()

    def _reset(self):
        self._sums: np.ndarray | float = 0.0
        self._steps = 0
        self._seconds = 0.0

    def add(self, rows: np.ndarray, seconds: float) -> None:
        """Adds steps: rows float [steps, rows, 2], and their wall time."""
        self._sums = self._sums + np.sum(rows, axis=0, dtype=np.float64)
        self._steps += len(rows)
        self._seconds += seconds

    def read(self, names: Sequence[str]) -> dict[str, float]:
        """Returns means and rates since the last call, and resets them.

        `loss` and `gradient_norm` are means over steps, the other metrics
        weighted means over the examples of all steps.
        """
        sums = dict(zip(names, np.asarray(self._sums), strict=True))
        tokens = sums.pop(TOKENS, None)
        values = means(sums)
        examples = self._steps * self._batch_size
        values["examples_per_second"] = examples / self._seconds
        if tokens is not None:
            values["tokens_per_second"] = float(tokens[0]) / self._seconds
        self._reset()
        return values


class MetricsLog:
    """Writes metrics into the folder of a run.

    A line of `metrics.jsonl` is `{"step": 100, "time": <Unix seconds>,
    "split": "train", "values": {...}}`; a value that is not finite is null.
    TensorBoard's event files are in `tensorboard/<split>`. A resumed run
    truncates both after the step that it resumes from, so curves have no step
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


def read_metrics(run_dir: str | os.PathLike[str]) -> list[dict]:
    """Reads the lines of a run's `metrics.jsonl`, in order.

    An incomplete last line of a killed process is skipped.
    """
    path = os.path.join(os.fspath(run_dir), FILE)
    if not tf.io.gfile.exists(path):
        return []
    return [json.loads(line) for line in _complete_lines(path)]


def _complete_lines(path: str) -> list[str]:
    # The text after the last newline is empty or incomplete.
    return read_text(path).split("\n")[:-1]


def _cut_lines(path: str, step: int) -> None:
    if not tf.io.gfile.exists(path):
        return
    kept = [x for x in _complete_lines(path) if json.loads(x)["step"] <= step]
    write_atomically(path, "".join(f"{line}\n" for line in kept))


def _new_event_file(folder: str) -> tf.io.TFRecordWriter:
    """Starts an event file: records of event protos, a version first.

    `tf.summary` could write it, but requires TensorBoard to be installed.
    """
    tf.io.gfile.makedirs(folder)
    now = time.time()
    # A resumed run starts another file; TensorBoard reads them in this order.
    name = f"events.out.tfevents.{now:.6f}.{socket.gethostname()}"
    writer = tf.io.TFRecordWriter(os.path.join(folder, name))
    version = tf.compat.v1.Event(wall_time=now, file_version="brain.Event:2")
    writer.write(version.SerializeToString())
    return writer


def read_events(path: str | os.PathLike[str]) -> Iterator[tf.compat.v1.Event]:
    """Yields the events of a TensorBoard file.

    An incomplete last event of a killed process is skipped.
    """
    records = tf.data.TFRecordDataset(os.fspath(path)).as_numpy_iterator()
    with contextlib.suppress(tf.errors.DataLossError):
        for record in records:
            yield tf.compat.v1.Event.FromString(record)


def _cut_events(path: str, step: int) -> None:
    """Rewrites an event file without the events after `step`."""
    kept = [event for event in read_events(path) if event.step <= step]
    # No ".tfevents." in the name, so that TensorBoard does not read it.
    partial = os.path.join(os.path.dirname(path), "cut" + PARTIAL)
    with tf.io.TFRecordWriter(partial) as writer:
        for event in kept:
            writer.write(event.SerializeToString())
    tf.io.gfile.rename(partial, path, overwrite=True)


_NOT_SHOWN = ("learning_rate", "gradient_norm", "examples_per_second")
_ACCURACY = "_accuracy"
# Number of the newest reports that the remaining time is estimated from.
_REPORTS = 20


class Progress:
    """A progress bar on a terminal, a line for each report elsewhere.

    Args:
      num_train_steps: steps of the whole run.
      step: the step that the run (re)starts from.
    """

    def __init__(self, num_train_steps: int, step: int = 0):
        self._total_steps = num_train_steps
        self._bar = tqdm(
            total=num_train_steps,
            initial=step,
            unit="step",
            dynamic_ncols=True,
            # The bar comes last, so that a narrow terminal truncates it first.
            bar_format="step {n_fmt}/{total_fmt}, {remaining} left{postfix} "
            "|{bar}|",
            # A file would fill up with redrawn bars.
            disable=not sys.stderr.isatty(),
        )
        self._clock = _Clock(step)

    def advance(self, steps: int) -> None:
        """Moves the bar and its estimate of the time left."""
        self._bar.update(steps)

    def report(
        self, step: int, split: str, values: Mapping[str, float]
    ) -> None:
        """Shows the newest metrics."""
        if self._bar.disable:
            parts = [_full(name, values[name]) for name in _shown(values)]
            if split == "train":
                left = self._clock.seconds_left(step, self._total_steps)
                parts.append(f"{tqdm.format_interval(left)} left")
            line = f"step {step}/{self._total_steps}, {split}: "
            self.note(line + ", ".join(parts))
        elif split == "train":
            # A line has no room for the terms of the loss.
            parts = [
                _short(name, values[name])
                for name in _shown(values)
                if not name.endswith("_loss")
            ]
            self._bar.set_postfix_str(", ".join(parts))
        else:
            parts = [_full(name, values[name]) for name in _shown(values)]
            self.note(f"step {step}, {split}: " + ", ".join(parts))

    def note(self, text: str) -> None:
        """Writes a line above the bar."""
        if self._bar.disable:
            print(text, file=sys.stderr, flush=True)
        else:
            self._bar.write(text, file=sys.stderr)

    def close(self) -> None:
        """Ends the line."""
        self._bar.close()


class _Clock:
    """Estimate of the remaining time, including evaluations and saving."""

    def __init__(self, step: int):
        self._start = (time.monotonic(), step)
        self._reports: deque[tuple[float, int]] = deque(maxlen=_REPORTS)

    def seconds_left(self, step: int, num_train_steps: int) -> float:
        """Counts a report at `step`, and returns the seconds to the end."""
        self._reports.append((time.monotonic(), step))
        # The time until the first report is mostly that of compilation.
        one = len(self._reports) == 1
        before, first = self._start if one else self._reports[0]
        now, last = self._reports[-1]
        return (now - before) / max(last - first, 1) * (num_train_steps - last)


def _shown(values: Mapping[str, float]) -> list[str]:
    return [name for name in values if name not in _NOT_SHOWN]


def _full(name: str, value: float) -> str:
    if name == "tokens_per_second":
        return f"{value:,.0f} tokens/s"
    if name == "matmul_share":
        return f"{value:.0%} of matmul peak"
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{name} {text}"


def _short(name: str, value: float) -> str:
    if name.endswith(_ACCURACY):
        return f"{name.removesuffix(_ACCURACY)} {value:.1%}"
    return _full(name, value).replace("matmul peak", "peak")


def print_interruption(
    step: int, run_dir: str | os.PathLike[str] | None
) -> None:
    """Prints that a run was interrupted after a step, and how to resume."""
    saved = "nothing saved, because the run has no folder"
    if run_dir is not None:
        saved = f"saved in {os.fspath(run_dir)}; the same command resumes"
    print(f"Stopped after step {step}, {saved}.", file=sys.stderr, flush=True)


def print_early_stop(step: int, config: TrainingConfig) -> None:
    """Prints that a run was stopped early after a step."""
    print(
        f"Stopped early after step {step} of {config.num_train_steps}: "
        f"{config.best_metric} was not better in the last "
        f"{config.early_stopping_patience} evaluations.",
        file=sys.stderr,
        flush=True,
    )
