"""Evaluation of a model over a whole dataset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training.input import distribute
from albert_tf.training.loss import TOKENS, WEIGHTS, Loss
from albert_tf.training.progress import reported
from albert_tf.training.workers import is_chief


class Evaluator:
    """Evaluates a model; traced once for all calls.

    All batches are padded to `batch_size`, the maximum number of examples, as
    TPUs and XLA require, with examples of weight 0; see `WEIGHTS`.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: Any,
        loss: Loss,
        batch_size: int,
    ):
        self._strategy = strategy
        self._model = model
        self._loss = loss
        replicas = strategy.num_replicas_in_sync
        self._batch_size = -(-batch_size // replicas) * replicas
        self._names: dict[str, list[str]] = {}
        self._sum_normalizers = tf.function(
            self._run_normalizers, autograph=False
        )
        self._sum_metrics = tf.function(self._run_metrics, autograph=False)

    def __call__(
        self, dataset: tf.data.Dataset, max_steps: int | None = None
    ) -> dict[str, float]:
        """Evaluates on a dataset, which is read twice.

        The first pass sums the denominators of the loss, so loss and metrics
        are those of a single batch of the whole dataset, and do not depend on
        batch size and number of replicas.

        Args:
          dataset: dicts of tensors `[batch, ...]`, with at most `batch_size`
            examples.
          max_steps: maximum number of batches to evaluate; None for all.

        Returns:
          `loss` and the metrics of the loss; NaN for metrics of zero weight.
        """
        if max_steps is not None:
            dataset = dataset.take(max_steps)
        padded = dataset.map(self._pad).prefetch(tf.data.AUTOTUNE)
        distributed = distribute(self._strategy, padded)
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
        assert sums is not None  # There are batches, see above.
        loss = sums.pop("loss")[0]
        sums.pop(TOKENS, None)
        return {"loss": float(loss)} | means(sums)

    def _pad(self, batch: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Pads a batch with copies of its last example, of weight 0."""
        size = self._batch_size
        count = tf.shape(next(iter(batch.values())))[0]
        examples = tf.minimum(tf.range(size), count - 1)
        padded = {name: tf.gather(x, examples) for name, x in batch.items()}
        weights = tf.sequence_mask(count, size, dtype=tf.float32)
        return padded | {WEIGHTS: weights}

    def _sum(self, function, group, distributed, *arguments):
        """Returns name -> sum over all batches; None without a batch."""
        iterator = iter(distributed)

        def batches():
            while True:
                try:
                    yield function(iterator, *arguments)
                except tf.errors.OutOfRangeError:
                    return

        evaluated = batches()
        if is_chief(self._strategy):
            evaluated = reported(evaluated, lambda _: self._batch_size)
        results = list(evaluated)
        if not results:
            return None
        # Convert at the end, because each conversion waits for the device.
        totals = np.array([r.numpy() for r in results], np.float64).sum(0)
        return dict(zip(self._names[group], totals, strict=True))

    def _run_normalizers(self, iterator):
        def on_replica(batch):
            return self._reduce("normalizers", self._loss.normalizers(batch))

        return self._run(on_replica, iterator)

    def _run_metrics(self, iterator, normalizers):
        def on_replica(batch):
            loss, metrics = self._loss(self._model, batch, normalizers, None)
            return self._reduce(
                "metrics", {**metrics, "loss": tf.stack([loss, 1.0])}
            )

        return self._run(on_replica, iterator)

    def _run(self, on_replica, iterator):
        result = self._strategy.run(on_replica, args=(iterator.get_next(),))
        return self._strategy.experimental_local_results(result)[0]

    def _reduce(self, group, values):
        self._names[group] = sorted(values)
        if not values:
            return tf.zeros([0])
        stacked = tf.stack([values[name] for name in self._names[group]])
        replica = tf.distribute.get_replica_context()
        return replica.all_reduce(tf.distribute.ReduceOp.SUM, stacked)


def means(sums: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Returns name -> weighted sum / weight, NaN where the weight is zero."""
    return {
        name: float(total / weight) if weight else float("nan")
        for name, (total, weight) in sums.items()
    }
