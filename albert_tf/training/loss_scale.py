"""Dynamic loss scaling for float16."""

from __future__ import annotations

import tensorflow as tf


class DynamicLossScale:
    """A loss factor that keeps float16 gradients in range.

    Halved at every step whose gradients are not finite (the step is skipped),
    doubled after `growth_steps` finite steps in a row (arXiv:1710.03740).
    Create it under the strategy's scope.

    Args:
      initial_scale: the first factor.
      growth_steps: finite steps before the factor is doubled.
    """

    def __init__(
        self, initial_scale: float = 2.0**15, growth_steps: int = 2000
    ):
        self._growth_steps = growth_steps
        self._scale = tf.Variable(
            initial_scale, trainable=False, dtype=tf.float32, name="scale"
        )
        self._good_steps = tf.Variable(
            0, trainable=False, dtype=tf.int64, name="good_steps"
        )

    @property
    def scale(self) -> tf.Tensor:
        """The current factor, float32 scalar."""
        return self._scale.read_value()

    @property
    def variables(self) -> dict[str, tf.Variable]:
        """The state by name."""
        return {"scale": self._scale, "good_steps": self._good_steps}

    def update(self, finite: tf.Tensor) -> None:
        """Adjusts the factor after a step; call it outside of replicas.

        Args:
          finite: bool scalar, whether the gradients of the step were finite.
        """
        good_steps = tf.where(finite, self._good_steps + 1, 0)
        grow = good_steps >= self._growth_steps
        factor = tf.where(finite, tf.where(grow, 2.0, 1.0), 0.5)
        self._scale.assign(tf.maximum(1.0, self._scale * factor))
        self._good_steps.assign(
            tf.where(grow, tf.zeros_like(good_steps), good_steps)
        )
