"""The best evaluation of a run, and early stopping."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.files import write_atomically
from albert_tf.input_files import read_json
from albert_tf.schema import typed
from albert_tf.training.config import TrainingConfig

FILE = "best.json"


@dataclasses.dataclass(frozen=True)
class Best:
    """The best evaluation so far.

    Attributes:
      step: number of updates done.
      metric: name of the metric.
      value: its value.
      loss: the loss of the same evaluation, which decides between equal values;
        None if the evaluation has no finite one.
    """

    step: int
    metric: str
    value: float
    loss: float | None = None

    def is_beaten_by(self, other: Best) -> bool:
        """Returns whether a later evaluation of the same metric is better.

        Of equal values, that with the lower loss is better; if losses are equal
        too, the later one, whose weights have been trained longer.
        """
        return other.rank >= self.rank

    @property
    def rank(self) -> tuple[float, float]:
        """See `rank`."""
        return rank(self.metric, self.value, self.loss)


def rank(metric: str, value: float, loss: float | None) -> tuple[float, float]:
    """Returns what orders evaluations: the better, the higher.

    Args:
      metric: name of the metric.
      value: its value.
      loss: the loss, which decides between equal values; None if unknown.
    """
    known = loss is not None and math.isfinite(loss)
    return (
        -value if lower_is_better(metric) else value,
        -loss if known else -math.inf,
    )


def lower_is_better(metric: str) -> bool:
    """Returns whether a metric is a loss, by its name."""
    return "loss" in metric


def _evaluated(
    step: int, metric: str, values: Mapping[str, float | None]
) -> Best | None:
    """Returns the evaluation of a step; None if its metric is not finite."""
    value, loss = values.get(metric), values.get("loss")
    # The log has null for non-finite values.
    if value is None or not math.isfinite(value):
        return None
    if loss is not None and not math.isfinite(loss):
        loss = None
    return Best(step, metric, value, loss)


def best_of(
    lines: Iterable[Mapping[str, Any]], metric: str, steps: Collection[int]
) -> Best | None:
    """Finds the best evaluation in the log of a run.

    Args:
      lines: lines of `metrics.jsonl`.
      metric: name of the metric to compare.
      steps: only evaluations at these steps count.
    """
    best = None
    for line in lines:
        if line["split"] != "eval" or line["step"] not in steps:
            continue
        found = _evaluated(line["step"], metric, line["values"])
        if found and (best is None or best.is_beaten_by(found)):
            best = found
    return best


def evaluations_since_best(
    lines: Iterable[Mapping[str, Any]], metric: str
) -> int:
    """Counts the evaluations since the metric was last improved.

    An equal value is no improvement, whatever its loss: it would keep a run
    going whose metric does not change any more.

    Args:
      lines: lines of `metrics.jsonl`.
      metric: name of the metric to compare; non-finite values never are best.
    """
    since, best = 0, None
    for line in lines:
        if line["split"] != "eval":
            continue
        found = _evaluated(line["step"], metric, line["values"])
        since += 1
        if found and (best is None or found.rank[0] > best.rank[0]):
            since, best = 0, found
    return since


def better(
    best: Best | None, step: int, metric: str, values: Mapping[str, float]
) -> Best | None:
    """Returns the evaluation of a step if it is the best so far, else None.

    Raises:
      InputError: if the evaluation lacks the metric.
    """
    if metric not in values:
        raise InputError(
            f"best_metric={metric!r}: the evaluation has "
            f"{', '.join(sorted(values)) or 'no metric'}"
        )
    found = _evaluated(step, metric, values)
    if found is None or (best and not best.is_beaten_by(found)):
        return None
    return found


def read_best(folder: str | os.PathLike[str]) -> Best | None:
    """Reads `best.json` from a folder of checkpoints; None without one.

    Raises:
      InputError: if the file cannot be parsed.
    """
    path = os.path.join(os.fspath(folder), FILE)
    if not tf.io.gfile.exists(path):
        return None
    try:
        record = read_json(path)
        best = Best(
            typed(record, "step", int),
            typed(record, "metric", str),
            typed(record, "value", float),
            typed(record, "loss", float),
        )
        if None in (best.step, best.metric, best.value):
            raise InputError("step, metric and value are required")
    except InputError as error:
        raise InputError(
            f"{path} is not a valid record of the best checkpoint ({error}); "
            "remove it, and a resumed run will write a new one"
        ) from error
    return best


def write_best(folder: str | os.PathLike[str], best: Best | None) -> None:
    """Writes `best.json` into a folder of checkpoints; None removes it."""
    path = os.path.join(os.fspath(folder), FILE)
    if best is not None:
        text = json.dumps(dataclasses.asdict(best), indent=2) + "\n"
        write_atomically(path, text)
    elif tf.io.gfile.exists(path):
        tf.io.gfile.remove(path)


def stops_early(
    config: TrainingConfig, step: int, lines: Sequence[Mapping[str, Any]]
) -> bool:
    """Returns whether early stopping ends the run.

    It depends only on the evaluations up to a checkpoint, so a run that is
    killed and resumed stops at the same step.

    Args:
      config: settings of the run.
      step: number of updates done.
      lines: the evaluations so far, as in `metrics.jsonl`.
    """
    patience = config.early_stopping_patience
    if not patience or step >= config.num_train_steps:
        return False
    return evaluations_since_best(lines, config.best_metric) >= patience
