"""The record of the best evaluation of a run."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Mapping, Sequence

import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.files import write_atomically
from albert_tf.input_files import read_json
from albert_tf.schema import typed

FILE = "best.json"


@dataclasses.dataclass(frozen=True)
class Best:
    """The best evaluation so far.

    Attributes:
      step: number of updates done.
      metric: name of the metric.
      value: its value.
      loss: that of the same evaluation, or None if it has no finite one.
    """

    step: int
    metric: str
    value: float
    loss: float | None = None

    @classmethod
    def of(
        cls, step: int, metric: str, values: Mapping[str, float | None]
    ) -> Best | None:
        """Returns the record of an evaluation, None without a finite metric."""
        value, loss = values.get(metric), values.get("loss")
        if value is None or not math.isfinite(value):
            return None
        if loss is not None and not math.isfinite(loss):
            loss = None
        return cls(step, metric, value, loss)


def rank(
    metric: str, value: float, loss: float | None, errors: Sequence[str] = ()
) -> tuple[float, float]:
    """Returns the key by which evaluations are ordered: the higher, the better.

    The loss decides between equal values; None if it is unknown.
    """
    known = loss is not None and math.isfinite(loss)
    return (
        -value if lower_is_better(metric, errors) else value,
        -loss if known else -math.inf,
    )


def lower_is_better(metric: str, errors: Sequence[str] = ()) -> bool:
    """Returns whether a metric is a loss, by its name, or one of `errors`."""
    return "loss" in metric or metric in errors


def read_best(folder: str | os.PathLike[str]) -> Best | None:
    """Reads `best.json` from a folder of checkpoints; None without one."""
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
