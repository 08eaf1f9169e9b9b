"""What a run's `metrics.jsonl` says, over steps, time and tokens."""

from __future__ import annotations

import dataclasses
import os
import statistics
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training.metrics_log import read_metrics
from albert_tf.training.run_folder import FILE, read_settings

# A pause between two lines of the log is longer than so many usual ones.
_PAUSE = 10


@dataclasses.dataclass(frozen=True)
class LogLine:
    """One line of the log.

    Attributes:
      step: updates done.
      split: "train", "eval" or another.
      values: metrics by name; without those that were not finite.
      seconds: running time of the run until here, without the time in which it
        was stopped.
      tokens: real tokens trained on until here; None where that is not known.
    """

    step: int
    split: str
    values: dict[str, float]
    seconds: float
    tokens: float | None


@dataclasses.dataclass(frozen=True)
class RunLog:
    """The log of a run, which may still be going on.

    Attributes:
      name: what tells the run from others.
      lines: in the order of writing; at least one.
      total_steps: the steps it is to have; None where that is not known.
    """

    name: str
    lines: tuple[LogLine, ...]
    total_steps: int | None

    def points(
        self, split: str, metric: str, unit: str
    ) -> list[tuple[float, float]]:
        """Returns the points of a curve, in order.

        Args:
          split: of the log.
          metric: the y of a point.
          unit: its x: "step", "seconds" or "tokens". A line for which that is
            not known gives no point.
        """
        points = [
            (getattr(line, unit), line.values[metric])
            for line in self.lines
            if line.split == split and metric in line.values
        ]
        return [point for point in points if point[0] is not None]


def read_runs(run_dirs: Sequence[str | os.PathLike[str]]) -> list[RunLog]:
    """Reads the logs of runs, named as shortly as tells them apart.

    Raises:
      InputError: a folder holds no metrics.
    """
    paths = [os.fspath(path).rstrip("/") for path in run_dirs]
    names = [os.path.basename(path) for path in paths]
    if len(set(names)) < len(names):
        names = paths
    return [
        _read_run(path, name) for path, name in zip(paths, names, strict=True)
    ]


def _read_run(path: str, name: str) -> RunLog:
    lines = read_metrics(path)
    if not lines:
        raise InputError(f"{path}: no metrics there to draw")
    settings: dict[str, Any] = {}
    # Logs of other loops have no record of their settings.
    if tf.io.gfile.exists(os.path.join(path, FILE)):
        settings = read_settings(path)
    batch_size = settings.get("train_batch_size")
    clock, tokens = _Clock(lines, batch_size), _Tokens(batch_size)
    return RunLog(
        name,
        tuple(
            LogLine(
                line["step"],
                line["split"],
                {k: v for k, v in line["values"].items() if v is not None},
                clock.advance(line),
                tokens.advance(line),
            )
            for line in lines
        ),
        settings.get("total_steps"),
    )


class _Clock:
    """Running time at each line: without the pauses between resumes."""

    def __init__(self, lines, batch_size):
        self._seconds = 0.0
        self._last = None
        self._batch_size = batch_size
        train, evaluation = [], []
        for last, line in zip(lines, lines[1:], strict=False):
            passed = line["time"] - last["time"]
            steps = line["step"] - last["step"]
            if steps > 0:
                train.append(passed / steps)
            else:
                evaluation.append(passed)
        self._step = statistics.median(train) if train else None
        self._evaluation = statistics.median(evaluation) if evaluation else None

    def advance(self, line) -> float:
        if self._last is None:
            # The log begins with the end of its first interval.
            rate = line["values"].get("examples_per_second")
            if rate and self._batch_size:
                self._seconds = line["step"] * self._batch_size / rate
        else:
            passed = max(line["time"] - self._last["time"], 0.0)
            steps = line["step"] - self._last["step"]
            usual = steps * self._step if steps > 0 else self._evaluation
            self._seconds += usual if passed > _PAUSE * usual else passed
        self._last = line
        return self._seconds


class _Tokens:
    """Real tokens trained on at each line, from the rates of the log."""

    def __init__(self, batch_size):
        self._batch_size = batch_size
        self._step, self._tokens, self._a_step = 0, 0.0, None

    def advance(self, line) -> float | None:
        tokens = line["values"].get("tokens_per_second")
        examples = line["values"].get("examples_per_second")
        counts = self._batch_size and tokens and examples
        if counts:
            self._a_step = self._batch_size * tokens / examples
        if self._a_step is None:
            return None
        found = self._tokens + (line["step"] - self._step) * self._a_step
        if counts:
            self._step, self._tokens = line["step"], found
        return found
