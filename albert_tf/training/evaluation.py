"""Metrics over a whole dataset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training.input_slices import distribute
from albert_tf.training.task import TOKENS, Task


class Evaluator:
    """Evaluates a model; keeps what was traced for the next time.

    Args:
      strategy: the strategy of the model.
      model: the Keras model.
      task: loss and metrics.
    """

    def __init__(
        self, strategy: tf.distribute.Strategy, model: Any, task: Task
    ):
        self._strategy = strategy
        self._model = model
        self._task = task
        self._names: dict[str, list[str]] = {}
        self._sum_normalizers = tf.function(
            self._run_normalizers, autograph=False
        )
        self._sum_metrics = tf.function(self._run_metrics, autograph=False)

    def __call__(
        self, dataset: tf.data.Dataset, max_steps: int | None = None
    ) -> dict[str, float]:
        """Evaluates on a dataset, which is read twice.

        The first pass adds up the denominators of the loss, so that loss and
        metrics are those of one batch that holds the whole dataset, whatever
        the batch size and the number of replicas.

        Args:
          dataset: global batches; the last one may be smaller.
          max_steps: evaluate only on so many batches.

        Returns:
          `loss` and the task's metrics; NaN for one whose weight is zero.

        Raises:
          InputError: the dataset is empty.
        """
        if max_steps is not None:
            dataset = dataset.take(max_steps)
        distributed = distribute(self._strategy, dataset)
        normalizers = self._sum(
            self._sum_normalizers, "normalizers", distributed
        )
        if normalizers is None:
            raise InputError("the evaluation dataset holds no batch")
        normalizers = {
            name: tf.constant(total, tf.float32)
            for name, total in normalizers.items()
        }
        sums = self._sum(self._sum_metrics, "metrics", distributed, normalizers)
        loss = sums.pop("loss")[0]
        sums.pop(TOKENS, None)
        return {"loss": float(loss)} | means(sums)

    def _sum(self, function, kind, distributed, *arguments):
        """Returns name -> sum over all batches, or None without a batch."""
        iterator = iter(distributed)
        results = []
        while True:
            try:
                results.append(function(iterator, *arguments))
            except tf.errors.OutOfRangeError:
                break
        if not results:
            return None
        # Converted at the end: each conversion waits for the device.
        totals = np.sum([r.numpy() for r in results], axis=0, dtype=np.float64)
        return dict(zip(self._names[kind], totals, strict=True))

    def _run_normalizers(self, iterator):
        def on_replica(batch):
            return self._reduce("normalizers", self._task.normalizers(batch))

        return self._run(on_replica, iterator)

    def _run_metrics(self, iterator, normalizers):
        def on_replica(batch):
            loss, metrics = self._task.loss(
                self._model, batch, normalizers, None
            )
            return self._reduce(
                "metrics", {**metrics, "loss": tf.stack([loss, 1.0])}
            )

        return self._run(on_replica, iterator)

    def _run(self, on_replica, iterator):
        result = self._strategy.run(on_replica, args=(iterator.get_next(),))
        return self._strategy.experimental_local_results(result)[0]

    def _reduce(self, kind, values):
        self._names[kind] = sorted(values)
        if not values:
            return tf.zeros([0])
        stacked = tf.stack([values[name] for name in self._names[kind]])
        replica = tf.distribute.get_replica_context()
        return replica.all_reduce(tf.distribute.ReduceOp.SUM, stacked)


def evaluate(
    strategy: tf.distribute.Strategy,
    model: Any,
    task: Task,
    dataset: tf.data.Dataset,
    max_steps: int | None = None,
) -> dict[str, float]:
    """Evaluates once; see `Evaluator`."""
    return Evaluator(strategy, model, task)(dataset, max_steps)


def means(sums: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Returns name -> weighted sum / weight, NaN where the weight is zero."""
    return {
        name: float(total / weight) if weight else float("nan")
        for name, (total, weight) in sums.items()
    }
