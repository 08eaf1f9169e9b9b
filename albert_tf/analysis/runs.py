"""The scores of runs as a table of text."""

from __future__ import annotations

import dataclasses
import os
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training.best_checkpoint import lower_is_better
from albert_tf.training.logging import read_metrics
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
      num_train_steps: the steps it is to have; None where that is not known.
    """

    name: str
    lines: tuple[LogLine, ...]
    num_train_steps: int | None

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
    usual = settings.get("train_batch_size")
    batch_sizes = [
        phase.get("train_batch_size", usual)
        for phase in settings.get("phases") or [{}]
    ]
    phases = _phases_of(lines)
    clock = _Clock(lines, phases, batch_sizes[0])
    tokens = _Tokens(batch_sizes)
    return RunLog(
        name,
        tuple(
            LogLine(
                line["step"],
                line["split"],
                {k: v for k, v in line["values"].items() if v is not None},
                clock.advance(line, phase),
                tokens.advance(line, phase),
            )
            for line, phase in zip(lines, phases, strict=True)
        ),
        settings.get("num_train_steps"),
    )


def _phases_of(lines) -> list[int]:
    """Returns the number of each line's phase, from 0.

    Evaluations have that of the training before them.
    """
    number, numbers = 0, []
    for line in lines:
        number = int(line["values"].get("phase") or number + 1) - 1
        numbers.append(number)
    return numbers


class _Clock:
    """Running time at each line: without the pauses between resumes."""

    def __init__(self, lines, phases, batch_size):
        self._seconds = 0.0
        self._last = None
        self._batch_size = batch_size
        train, evaluation = defaultdict(list), []
        for last, line, phase in zip(
            lines, lines[1:], phases[1:], strict=False
        ):
            passed = line["time"] - last["time"]
            steps = line["step"] - last["step"]
            if steps > 0:
                train[phase].append(passed / steps)
            else:
                evaluation.append(passed)
        self._step = {n: statistics.median(x) for n, x in train.items()}
        self._evaluation = statistics.median(evaluation) if evaluation else None

    def advance(self, line, phase: int) -> float:
        if self._last is None:
            # The log begins with the end of its first interval.
            rate = line["values"].get("examples_per_second")
            if rate and self._batch_size:
                self._seconds = line["step"] * self._batch_size / rate
        else:
            passed = max(line["time"] - self._last["time"], 0.0)
            steps = line["step"] - self._last["step"]
            usual = self._evaluation
            if steps > 0:
                usual = steps * self._step[phase]
            paused = usual is not None and passed > _PAUSE * usual
            self._seconds += usual if paused else passed
        self._last = line
        return self._seconds


class _Tokens:
    """Real tokens trained on at each line, from the rates of the log."""

    def __init__(self, batch_sizes):
        self._batch_sizes = batch_sizes
        self._step, self._tokens, self._a_step = 0, 0.0, None

    def advance(self, line, phase: int) -> float | None:
        tokens = line["values"].get("tokens_per_second")
        examples = line["values"].get("examples_per_second")
        # A log may be of more phases than a record that was edited.
        batch_size = self._batch_sizes[min(phase, len(self._batch_sizes) - 1)]
        counts = batch_size and tokens and examples
        if counts:
            self._a_step = batch_size * tokens / examples
        if self._a_step is None:
            return None
        found = self._tokens + (line["step"] - self._step) * self._a_step
        if counts:
            self._step, self._tokens = line["step"], found
        return found


_SCORES = ("loss", "accuracy")


def score_names(runs: Sequence[RunLog]) -> list[str]:
    """Returns the names of losses and accuracies, in the order of the logs."""
    names = [name for run in runs for line in run.lines for name in line.values]
    return [
        name for name in dict.fromkeys(names) if name.split("_")[-1] in _SCORES
    ]


def baseline_of(
    metric: str, baselines: Mapping[str, float]
) -> tuple[str, float] | None:
    """Returns label and value of the baseline of an accuracy, if there is one.

    `mlm_unigram_accuracy` is the one of `mlm_accuracy`, `sop_chance` of
    `sop_accuracy`, `nsp_chance` of `nsp_accuracy`.
    """
    if not metric.endswith("accuracy"):
        return None
    for label, value in baselines.items():
        if label.split("_")[0] == metric.split("_")[0]:
            return label, value
    return None


def run_table(
    runs: Sequence[RunLog], baselines: Mapping[str, float] | None = None
) -> str:
    """Returns lines with the newest and the best scores of runs.

    Args:
      runs: what `read_runs` returned.
      baselines: label -> accuracy of what has learned nothing.

    Returns:
      A row for the newest held-out scores of each run, for the best of each
      metric, wherever in the run it was, and for the newest training means.
    """
    metrics = score_names(runs)
    rows = [
        ["run", "scores", "step", "minutes", "tokens", "tokens/s", *metrics]
    ]
    for run in runs:
        for split, label in (("eval", "held out"), ("train", "train")):
            scores = [
                [value for _, value in run.points(split, metric, "step")]
                for metric in metrics
            ]
            if not any(scores):
                continue
            if phases := run.points(split, "phase", "step"):
                label = f"{label}, phase {phases[-1][1]:.0f}"
            rows.append([run.name, label, *_progress(run, split)])
            rows[-1] += [_score(x[-1] if x else None) for x in scores]
            if split == "eval":
                best = [
                    _best(metric, x)
                    for metric, x in zip(metrics, scores, strict=True)
                ]
                rows.append([run.name, "held out, best", "", "", "", ""])
                rows[-1] += [_score(x) for x in best]
    found = [baseline_of(metric, baselines or {}) for metric in metrics]
    if any(found):
        rows.append(["guessing", "", "", "", "", ""])
        rows[-1] += [_score(x[1] if x else None) for x in found]
    return _aligned(rows, left=2)


def _progress(run: RunLog, split: str) -> list[str]:
    line = [line for line in run.lines if line.split == split][-1]
    step = f"{line.step:,}"
    if run.num_train_steps:
        step += f"/{run.num_train_steps:,}"
    tokens = f"{line.tokens / 1e6:,.1f} M" if line.tokens else ""
    rates = [
        value for _, value in run.points("train", "tokens_per_second", "step")
    ]
    rate = f"{sorted(rates)[len(rates) // 2]:,.0f}" if rates else ""
    return [step, f"{line.seconds / 60:,.1f}", tokens, rate]


def _best(metric: str, values: Sequence[float]) -> float | None:
    if not values:
        return None
    return min(values) if lower_is_better(metric) else max(values)


def _score(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _aligned(rows: Sequence[Sequence[str]], left: int) -> str:
    """Returns the rows with columns of one width, the first ones flush left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
