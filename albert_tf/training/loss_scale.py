"""Loss scaling for float16."""

from __future__ import annotations

import tensorflow as tf


class DynamicLossScale:
    """Dynamic loss scale, which keeps float16 gradients in range.

    The scale is halved after every step whose gradients are not finite (such a
    step changes no weight), and doubled after `growth_steps` finite steps in a
    row (arXiv:1710.03740). Create it under the strategy's scope.
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
        """The current scale, a float32 scalar."""
        return self._scale.read_value()

    @property
    def variables(self) -> dict[str, tf.Variable]:
        """The state by name."""
        return {"scale": self._scale, "good_steps": self._good_steps}

    def update(self, finite: tf.Tensor) -> None:
        """Adjusts the scale after a step; call it outside of replicas.

        `finite`, a bool scalar, is whether the gradients of the step were
        finite.
        """
        good_steps = tf.where(finite, self._good_steps + 1, 0)
        grow = good_steps >= self._growth_steps
        factor = tf.where(finite, tf.where(grow, 2.0, 1.0), 0.5)
        self._scale.assign(tf.maximum(1.0, self._scale * factor))
        self._good_steps.assign(
            tf.where(grow, tf.zeros_like(good_steps), good_steps)
        )
