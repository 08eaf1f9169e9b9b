"""Logs of training runs, and their scores as a table."""

from __future__ import annotations

import dataclasses
import os
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.objectives.registry import baselines_of
from albert_tf.tables import text_table
from albert_tf.training.best_checkpoint import lower_is_better
from albert_tf.training.logging import read_metrics
from albert_tf.training.run_folder import FILE, read_settings

# A run was paused between two lines of its log if the interval is longer than
# this many usual ones.
_PAUSE = 10


@dataclasses.dataclass(frozen=True)
class LogLine:
    """One line of the log, with its finite metrics.

    Attributes:
      step: number of updates.
      split: "train", "eval" or another split.
      seconds: running time of the run, without pauses.
      tokens: number of real tokens trained on; None if unknown.
      phase: phase of the run, from 0; an evaluation's is that of the training
        before it.
    """

    step: int
    split: str
    values: dict[str, float]
    seconds: float
    tokens: float | None
    phase: int = 0


@dataclasses.dataclass(frozen=True)
class RunLog:
    """The log of a run, which may be in progress.

    Attributes:
      name: name of the run, unique among those that were read together.
      lines: lines in the order of writing; at least one.
      num_train_steps: total number of steps of the run; None if unknown.
    """

    name: str
    lines: tuple[LogLine, ...]
    num_train_steps: int | None

    def points(
        self, split: str, metric: str, unit: str
    ) -> list[tuple[float, float]]:
        """Returns the points (x, y) of a metric's curve in order.

        `unit` of the x axis is "step", "seconds" or "tokens". Lines without a
        value for it are left out.
        """
        points = [
            (getattr(line, unit), line.values[metric])
            for line in self.lines
            if line.split == split and metric in line.values
        ]
        return [point for point in points if point[0] is not None]


def read_runs(run_dirs: Sequence[str | os.PathLike[str]]) -> list[RunLog]:
    """Reads the logs of runs.

    A run's name is that of its folder, or its path if names are not unique.
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
        raise InputError(
            f"{path}: no metrics; expected the folder of a training run"
        )
    settings: dict[str, Any] = {}
    # Not every training loop records its settings.
    if tf.io.gfile.exists(os.path.join(path, FILE)):
        settings = read_settings(path)
    usual = settings.get("train_batch_size")
    batch_sizes = [
        phase.get("train_batch_size", usual)
        for phase in settings.get("phases") or [{}]
    ]
    phases = _phases(lines)
    times = _running_times(lines, phases, batch_sizes[0])
    tokens = _token_counts(lines, phases, batch_sizes)
    return RunLog(
        name,
        tuple(
            LogLine(
                step=line["step"],
                split=line["split"],
                values={
                    k: v for k, v in line["values"].items() if v is not None
                },
                seconds=seconds,
                tokens=count,
                phase=phase,
            )
            for line, seconds, count, phase in zip(
                lines, times, tokens, phases, strict=True
            )
        ),
        settings.get("num_train_steps"),
    )


def _phases(lines) -> list[int]:
    """Returns the phase of each line, from 0.

    Evaluations belong to the phase of the training before them.
    """
    phase, phases = 0, []
    for line in lines:
        phase = max(0, int(line["values"].get("phase") or phase + 1) - 1)
        phases.append(phase)
    return phases


def _running_times(lines, phases, batch_size) -> list[float]:
    """Returns the running time at each line in seconds, without pauses."""
    intervals = [
        (line["step"] - last["step"], line["time"] - last["time"], phase)
        for last, line, phase in zip(lines, lines[1:], phases[1:], strict=False)
    ]
    # None is the phase of evaluations.
    usual = defaultdict(list)
    for steps, seconds, phase in intervals:
        if steps > 0:
            usual[phase].append(seconds / steps)
        else:
            usual[None].append(seconds)
    usual = {phase: statistics.median(x) for phase, x in usual.items()}
    # The first line ends the first interval, whose beginning is not logged.
    rate = lines[0]["values"].get("examples_per_second")
    known = rate and batch_size
    times = [lines[0]["step"] * batch_size / rate if known else 0.0]
    for steps, seconds, phase in intervals:
        expected = steps * usual[phase] if steps > 0 else usual[None]
        seconds = max(seconds, 0.0)
        paused = seconds > _PAUSE * expected
        times.append(times[-1] + (expected if paused else seconds))
    return times


def _token_counts(lines, phases, batch_sizes) -> list[float | None]:
    """Returns the number of real tokens at each line, from logged rates."""
    counts: list[float | None] = []
    last_step, total, tokens_per_step = 0, 0.0, None
    for line, phase in zip(lines, phases, strict=True):
        tokens = line["values"].get("tokens_per_second")
        examples = line["values"].get("examples_per_second")
        # An edited record may have fewer phases than the log.
        batch_size = batch_sizes[min(phase, len(batch_sizes) - 1)]
        has_rates = batch_size and tokens and examples
        if has_rates:
            tokens_per_step = batch_size * tokens / examples
        if tokens_per_step is None:
            counts.append(None)
            continue
        counts.append(total + (line["step"] - last_step) * tokens_per_step)
        if has_rates:
            last_step, total = line["step"], counts[-1]
    return counts


# Ends of names of scores that are plotted, and names of others of tasks.
_SCORES = ("loss", "accuracy")
_TASK_SCORES = (
    *("f1", "exact", "exact_match", "precision", "recall"),
    *("matthews", "pearson", "spearman"),
)


def score_names(runs: Sequence[RunLog]) -> list[str]:
    """Returns the names of losses and accuracies in the order of the logs."""
    names = [name for run in runs for line in run.lines for name in line.values]
    return [
        name for name in dict.fromkeys(names) if name.split("_")[-1] in _SCORES
    ]


def baseline_rows(
    metrics: Sequence[str], baselines: Mapping[str, float]
) -> dict[str, list[str]]:
    """Returns the rows of baselines in a table: label -> cell per metric."""
    columns = [baselines_of(metric, baselines) for metric in metrics]
    labels = dict.fromkeys(label for column in columns for label in column)
    return {
        label: [_score(column.get(label)) for column in columns]
        for label in labels
    }


def run_table(
    runs: Sequence[RunLog], baselines: Mapping[str, float] | None = None
) -> str:
    """Formats the latest and the best scores of runs as a table.

    It has rows for each run: the latest held-out scores, the best score of each
    metric at any step, and the latest training means. The latest are those of
    the newest phase, which may lack scores that earlier ones have. `baselines`
    are label -> accuracy of guessing.
    """
    names = {name for run in runs for x in run.lines for name in x.values}
    metrics = [*score_names(runs), *(x for x in _TASK_SCORES if x in names)]
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
            rows[-1] += [_score(_latest(run, split, x)) for x in metrics]
            if split == "eval":
                best = [
                    _best(metric, x)
                    for metric, x in zip(metrics, scores, strict=True)
                ]
                rows.append([run.name, "held out, best", "", "", "", ""])
                rows[-1] += [_score(x) for x in best]
    for label, cells in baseline_rows(metrics, baselines or {}).items():
        rows.append([label, "", "", "", "", "", *cells])
    return text_table(rows, left=2)


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


def _latest(run: RunLog, split: str, metric: str) -> float | None:
    """Returns the latest value of a metric in the newest phase, if any."""
    lines = [line for line in run.lines if line.split == split]
    values = [
        line.values[metric]
        for line in lines
        if line.phase == lines[-1].phase and metric in line.values
    ]
    return values[-1] if values else None


def _best(metric: str, values: Sequence[float]) -> float | None:
    if not values:
        return None
    return min(values) if lower_is_better(metric) else max(values)


def _score(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
