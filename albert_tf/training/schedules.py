"""Learning rates as functions of the step."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError


@dataclasses.dataclass(frozen=True)
class PolynomialDecay:
    """Linear warm-up, then polynomial decay to zero.

    The original's schedule (google-research/albert, `optimization.py`). The
    decay runs over the absolute step, so the rate drops a little where the
    warm-up hands over: the decay has already been falling by then. A
    `start_warmup_step` in the future gives negative rates before it, as in the
    original.

    Attributes:
      base_rate: the rate that the warm-up climbs to and the decay starts from.
      total_steps: the step at which the rate reaches zero, and stays there.
      warmup_steps: steps of linear warm-up; 0 for none.
      power: exponent of the decay; 1 is linear.
      start_warmup_step: the step at which the warm-up starts from zero.
    """

    base_rate: float
    total_steps: int
    warmup_steps: int = 0
    power: float = 1.0
    start_warmup_step: int = 0

    def __post_init__(self):
        self._require("base_rate", math.isfinite(self.base_rate), "finite")
        self._require("base_rate", self.base_rate >= 0, "at least 0")
        self._require("total_steps", self.total_steps >= 1, "at least 1")
        self._require("warmup_steps", self.warmup_steps >= 0, "at least 0")
        self._require("power", self.power > 0, "positive")

    def _require(self, name: str, condition: bool, rule: str) -> None:
        if not condition:
            value = getattr(self, name)
            raise InputError(f"learning rate: {name}={value} must be {rule}")

    def __call__(self, step: tf.Tensor | int) -> tf.Tensor:
        """Returns the rate of one update.

        Args:
          step: integer scalar; the first update of a run is step 0.

        Returns:
          float32 scalar.
        """
        # The grouping of the factors is what TensorFlow makes of the original's
        # graph when it folds constants, so rates agree to the last bit.
        base = np.float32(self.base_rate)
        step = tf.cast(step, tf.int32)
        done = tf.minimum(
            tf.cast(step, tf.float32), np.float32(self.total_steps)
        ) * (np.float32(1) / np.float32(self.total_steps))
        rate = base * tf.pow(1.0 - done, self.power)
        if not self.warmup_steps:
            return rate
        since_start = step - self.start_warmup_step
        warmup = tf.cast(since_start, tf.float32) * (
            base * (np.float32(1) / np.float32(self.warmup_steps))
        )
        return tf.where(since_start < self.warmup_steps, warmup, rate)

    def to_dict(self) -> dict[str, Any]:
        """Returns the arguments, for the record of a run."""
        return dataclasses.asdict(self)


# A schedule reads as a function where a run is put together.
polynomial_decay = PolynomialDecay
