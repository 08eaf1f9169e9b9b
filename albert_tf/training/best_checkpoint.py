"""Which checkpoint of a run scored best, and how that is kept on record."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training.files import read_text, write_atomically

FILE = "best.json"


@dataclasses.dataclass(frozen=True)
class Best:
    """The best evaluation so far.

    Attributes:
      step: updates done then.
      metric: what it was judged by.
      value: of the metric.
    """

    step: int
    metric: str
    value: float

    def is_beaten_by(self, value: float) -> bool:
        """Whether a value is better: a lower loss, or a higher anything else.

        Equal ones are not, so the earlier of two stays; neither is NaN.
        """
        if lower_is_better(self.metric):
            return value < self.value
        return value > self.value


def lower_is_better(metric: str) -> bool:
    """Whether a metric is a loss, by its name."""
    return "loss" in metric


def best_of(
    lines: Iterable[Mapping[str, Any]], metric: str, steps: Collection[int]
) -> Best | None:
    """Finds the best evaluation in the log of a run.

    Args:
      lines: of `metrics.jsonl`.
      metric: what to judge by.
      steps: those that count: whose checkpoints are there.
    """
    best = None
    for line in lines:
        value = line["values"].get(metric)
        if line["split"] != "eval" or line["step"] not in steps:
            continue
        # In the log, a value that is not finite is null.
        if value is None or not math.isfinite(value):
            continue
        if best is None or best.is_beaten_by(value):
            best = Best(line["step"], metric, value)
    return best


def evaluations_since_best(
    lines: Iterable[Mapping[str, Any]], metric: str
) -> int:
    """Counts the evaluations behind the best one, whether that is kept or not.

    Args:
      lines: of `metrics.jsonl`.
      metric: what to judge by; a value that is not finite is never the best.
    """
    lines = list(lines)
    steps = [line["step"] for line in lines if line["split"] == "eval"]
    best = best_of(lines, metric, steps)
    return sum(best is None or step > best.step for step in steps)


def better(
    best: Best | None, step: int, metric: str, values: Mapping[str, float]
) -> Best | None:
    """Returns the evaluation of a step if it is the best one so far.

    Raises:
      InputError: it has no such metric.
    """
    if metric not in values:
        raise InputError(
            f"best_metric={metric!r}: the evaluation has "
            f"{', '.join(sorted(values)) or 'no metric'}"
        )
    value = values[metric]
    if not math.isfinite(value) or (best and not best.is_beaten_by(value)):
        return None
    return Best(step, metric, value)


def read_best(folder: str | os.PathLike) -> Best | None:
    """Reads the record in a folder of checkpoints; None where there is none.

    Raises:
      InputError: the file is no such record.
    """
    path = os.path.join(os.fspath(folder), FILE)
    if not tf.io.gfile.exists(path):
        return None
    try:
        return Best(**json.loads(read_text(path)))
    except (ValueError, TypeError) as error:
        raise InputError(
            f"{path} is not the record of a best checkpoint ({error}); remove "
            "it, and the run makes another when it resumes"
        ) from error


def write_best(folder: str | os.PathLike, best: Best | None) -> None:
    """Puts a record into a folder of checkpoints; None removes it."""
    path = os.path.join(os.fspath(folder), FILE)
    if best is not None:
        text = json.dumps(dataclasses.asdict(best), indent=2) + "\n"
        write_atomically(path, text)
    elif tf.io.gfile.exists(path):
        tf.io.gfile.remove(path)
