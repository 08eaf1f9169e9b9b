"""Moving averages of the weights."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import numpy as np
import tensorflow as tf

from albert_tf.training.optimizers import Variable, by_name

T = TypeVar("T")


class WeightAverages:
    """Exponential moving averages of weights, updated on the device.

    After update k (from 0): `average += (1 - d) * (weight - average)` with
    `d = min(decay, (1 + k) / (10 + k))`, as in
    `tf.train.ExponentialMovingAverage`: the averages begin as the initial
    weights, which lose almost all influence within a few steps. Create it under
    the strategy's scope, when the weights have their initial values.

    Args:
      variables: the weights to average.
      decay: in (0, 1).
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
        """The averages, by the names of the weights."""
        return dict(self._averages)

    def decay_at(self, step: tf.Tensor | int) -> tf.Tensor:
        """Returns the decay after update `step` (from 0), float32 scalar."""
        step = tf.cast(step, tf.float32)
        return tf.minimum(np.float32(self._decay), (1.0 + step) / (10.0 + step))

    def update(
        self, decay: tf.Tensor, condition: tf.Tensor | None = None
    ) -> None:
        """Updates the averages after the weights; call it in a replica.

        Args:
          decay: the result of `decay_at` for this step.
          condition: bool scalar; if given and false, nothing changes.
        """
        kept = 1.0 - decay
        if condition is not None:
            kept = tf.where(condition, kept, 0.0)

        def move(average, weight, kept):
            return average.assign_add(kept * (weight - average))

        def move_all(strategy, kept):
            for name, weight in self._weights.items():
                average = self._averages[name]
                strategy.extended.update(average, move, args=(weight, kept))

        tf.distribute.get_replica_context().merge_call(move_all, args=(kept,))

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Swaps the averages into the model, and its exact weights back.

        Inside the block, `variables` hold the weights.
        """
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def applied(self, evaluate: Callable[[], T]) -> Callable[[], T]:
        """Returns `evaluate`, applied to the averages of the weights."""

        def evaluate_averages():
            with self.in_use():
                return evaluate()

        return evaluate_averages

    def _swap(self) -> None:
        def swap(weight, average):
            held, averaged = weight.read_value(), average.read_value()
            average.assign(held)
            weight.assign(averaged)

        with self._strategy.scope():
            for name, weight in self._weights.items():
                self._strategy.extended.update(
                    weight, swap, args=(self._averages[name],)
                )
