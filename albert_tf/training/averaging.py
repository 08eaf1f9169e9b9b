"""Exponential moving averages of the weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np
import tensorflow as tf

from albert_tf.training.optimizers import Variable, by_name

T = TypeVar("T")


class WeightAverages:
    """Exponential moving averages of the weights, updated on the device.

    After update k (from 0), `average += (1 - d) * (weight - average)` with
    `d = min(decay, (1 + k) / (10 + k))`, as in
    `tf.train.ExponentialMovingAverage`. The averages start as the initial
    weights, whose influence vanishes within a few steps. Create it under the
    strategy's scope, while the weights have their initial values.
    """

    def __init__(self, variables: Iterable[Variable], decay: float):
        self._decay = decay
        self._strategy = tf.distribute.get_strategy()
        self._weights = by_name(variables)
        self._averages = {
            name: tf.Variable(
                weight.read_value(), trainable=False, name=f"average/{name}"
            )
            for name, weight in self._weights.items()
        }

    @property
    def variables(self) -> dict[str, tf.Variable]:
        """The averages, by name of the weight."""
        return dict(self._averages)

    def decay_at(self, step: tf.Tensor | int) -> tf.Tensor:
        """Returns the decay after update `step` (from 0), a float32 scalar."""
        step = tf.cast(step, tf.float32)
        return tf.minimum(np.float32(self._decay), (1.0 + step) / (10.0 + step))

    def update(
        self, decay: tf.Tensor, condition: tf.Tensor | None = None
    ) -> None:
        """Updates the averages; call it in a replica, after the weights.

        `decay` is that of the step, see `decay_at`. If `condition`, a bool
        scalar, is given and false, nothing changes.
        """
        rate = 1.0 - decay
        if condition is not None:
            rate = tf.where(condition, rate, 0.0)

        def update(average, weight, rate):
            return average.assign_add(rate * (weight - average))

        def update_all(strategy, rate):
            for name, weight in self._weights.items():
                average = self._averages[name]
                strategy.extended.update(average, update, args=(weight, rate))

        tf.distribute.get_replica_context().merge_call(update_all, args=(rate,))

    def applied(self, evaluate: Callable[[], T]) -> Callable[[], T]:
        """Wraps `evaluate` so that the model has the averages while it runs."""

        def evaluate_averages():
            self._swap()
            try:
                return evaluate()
            finally:
                self._swap()

        return evaluate_averages

    def _swap(self) -> None:
        """Exchanges the values of weights and averages, bit for bit."""

        def swap(weight, average):
            weights, averages = weight.read_value(), average.read_value()
            average.assign(weights)
            weight.assign(averages)

        with self._strategy.scope():
            for name, weight in self._weights.items():
                self._strategy.extended.update(
                    weight, swap, args=(self._averages[name],)
                )
