"""The metrics of the steps between two lines of the log."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from albert_tf.training.evaluation import means
from albert_tf.training.task import TOKENS


class Interval:
    """Adds up rows of metrics and device time.

    Args:
      batch_size: examples of a global batch.
    """

    def __init__(self, batch_size: int):
        self._batch_size = batch_size
        self._reset()

    def _reset(self):
        self._sums = 0.0
        self._steps = 0
        self._seconds = 0.0

    def add(self, rows: np.ndarray, seconds: float) -> None:
        """Adds a window: rows float [steps, rows, 2], and its wall time."""
        self._sums = self._sums + np.sum(rows, axis=0, dtype=np.float64)
        self._steps += len(rows)
        self._seconds += seconds

    def read(self, names: Sequence[str]) -> dict[str, float]:
        """Returns means and rates since the last call, and starts anew.

        `loss` and `gradient_norm` are means over steps; the task's metrics are
        weighted means over all that the steps have seen.
        """
        sums = dict(zip(names, self._sums, strict=True))
        tokens = sums.pop(TOKENS, None)
        values = means(sums)
        examples = self._steps * self._batch_size
        values["examples_per_second"] = examples / self._seconds
        if tokens is not None:
            values["tokens_per_second"] = float(tokens[0]) / self._seconds
        self._reset()
        return values
