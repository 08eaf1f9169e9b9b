"""One training step as every replica runs it."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training.averaging import WeightAverages
from albert_tf.training.gradients import clip_by_global_norm, densify
from albert_tf.training.optimizers import AdamW
from albert_tf.training.seeds import slice_seed
from albert_tf.training.task import Task
from albert_tf.training.variables import by_name


class ReplicaStep:
    """Forward, backward, reduction, clipping and update of one step.

    All sums over replicas are taken at the top level of the step: TensorFlow
    cannot merge replicas inside of a conditional or a loop.

    Args:
      model: the Keras model; its trainable variables are the optimizer's.
      task: loss and metrics.
      optimizer: built on the model's trainable variables.
      accumulation: micro-batches a step.
      slice_size: examples a micro-batch.
      clip_norm: largest global gradient norm; 0 for no clipping.
      skip_overflow: whether a step whose gradients are not finite changes
        nothing (float16 under a loss scale).
      averages: moving averages of the weights, to be updated.
      log_update_norms: whether the result has a row for each of the optimizer's
        details.

    Attributes:
      row_names: names of the rows of the result; empty before the first trace.
      detail_names: those of them that are the optimizer's details.
    """

    def __init__(
        self,
        model: Any,
        task: Task,
        optimizer: AdamW,
        *,
        accumulation: int = 1,
        slice_size: int,
        clip_norm: float = 1.0,
        skip_overflow: bool = False,
        averages: WeightAverages | None = None,
        log_update_norms: bool = False,
    ):
        self._model = model
        self._task = task
        self._optimizer = optimizer
        self._accumulation = accumulation
        self._slice_size = slice_size
        self._clip_norm = clip_norm
        self._skip_overflow = skip_overflow
        self._averages = averages
        self._log_update_norms = log_update_norms
        self._variables = by_name(model.trainable_variables)
        self._metric_names: tuple[str, ...] = ()
        self.row_names: tuple[str, ...] = ()
        self.detail_names: tuple[str, ...] = ()

    def __call__(
        self,
        batch: Any,
        learning_rate: tf.Tensor,
        seed: tf.Tensor,
        scale: tf.Tensor,
        average_decay: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Runs one step; call it through `strategy.run`.

        Args:
          batch: this replica's slice of the global batch, nested tensors
            `[accumulation * slice_size, ...]`.
          learning_rate: float32 scalar.
          seed: int32 [2], the seed of the step.
          scale: float32 scalar, the loss scale.
          average_decay: float32 scalar, of the averages, if there are any.

        Returns:
          float32 [rows, 2], the same on every replica: weighted sum and weight
          of each of `row_names` over the global batch. The gradient norm
          (before clipping), which comes last, and the details of the optimizer
          have weight 0 where the step was skipped, for the scale to be halved.
        """
        replica = tf.distribute.get_replica_context()
        batch = self._with_batch_axes(batch, self._batch_size)
        normalizers = dict(self._task.normalizers(batch))
        if normalizers:
            normalizers = replica.all_reduce(
                tf.distribute.ReduceOp.SUM, normalizers
            )
        first_slice = replica.replica_id_in_sync_group * self._accumulation

        def micro_step(micro_batch, index):
            return self._micro_step(
                micro_batch,
                normalizers,
                slice_seed(seed, first_slice + index),
                scale,
            )

        if self._accumulation == 1:
            gradients, rows = micro_step(batch, 0)
        else:
            gradients, rows = self._accumulate(micro_step, batch)
        # Without the variables that the loss does not depend on.
        gradients = {n: g for n, g in gradients.items() if g is not None}
        gradients, rows = replica.all_reduce(
            tf.distribute.ReduceOp.SUM, (gradients, rows)
        )
        updates = self._update(gradients, learning_rate, scale, average_decay)
        loss = rows[:1] + [[0.0, 1.0]]
        return tf.concat([loss, rows[1:], updates], axis=0)

    @property
    def _batch_size(self):
        return self._accumulation * self._slice_size

    def _with_batch_axes(self, batch, *axes):
        """Replaces the batch axis by axes of the given, static sizes."""
        return tf.nest.map_structure(
            lambda x: (
                tf.reshape(x, tf.concat([axes, tf.shape(x)[1:]], 0))
                if None in x.shape[1:]
                else tf.reshape(x, [*axes, *x.shape[1:]])
            ),
            batch,
        )

    def _micro_step(self, batch, normalizers, seed, scale):
        """Returns gradients by variable name, and rows [rows - 1, 2]."""
        with tf.GradientTape() as tape:
            loss, metrics = self._task.loss(
                self._model, batch, normalizers, seed
            )
            scaled_loss = loss * scale
        gradients = tape.gradient(scaled_loss, list(self._variables.values()))
        gradients = dict(zip(self._variables, densify(gradients), strict=True))
        if all(gradient is None for gradient in gradients.values()):
            raise InputError(
                "the loss depends on no trainable variable; unfreeze what it "
                "is computed from"
            )
        names = sorted(metrics)
        self._metric_names = ("loss", *names)
        rows = [tf.stack([loss, 0.0]), *(metrics[name] for name in names)]
        return gradients, tf.stack(rows)

    def _accumulate(self, micro_step, batch):
        """Sums what `micro_step` returns over the micro-batches, in float32."""
        batch = self._with_batch_axes(
            batch, self._accumulation, self._slice_size
        )
        unused = set()

        def body(index, sums, rows):
            micro_batch = tf.nest.map_structure(lambda x: x[index], batch)
            gradients, row = micro_step(micro_batch, index)
            unused.update(n for n, g in gradients.items() if g is None)
            sums = {
                name: total if name in unused else total + gradients[name]
                for name, total in sums.items()
            }
            return index + 1, sums, rows.write(index, row)

        zeros = {n: tf.zeros(v.shape) for n, v in self._variables.items()}
        _, sums, rows = tf.while_loop(
            lambda index, *_: index < self._accumulation,
            body,
            (0, zeros, tf.TensorArray(tf.float32, self._accumulation)),
            maximum_iterations=self._accumulation,
            # The point is to hold the activations of one micro-batch only.
            parallel_iterations=1,
        )
        sums = {n: None if n in unused else total for n, total in sums.items()}
        return sums, tf.reduce_sum(rows.stack(), axis=0)

    def _update(self, gradients, learning_rate, scale, average_decay):
        """Clips and applies; returns the rows of details and gradient norm."""
        condition = None
        if self._skip_overflow:
            gradients = {n: g / scale for n, g in gradients.items()}
        ordered = [gradients.get(name) for name in self._variables]
        clipped, norm = clip_by_global_norm(ordered, self._clip_norm)
        if self._skip_overflow:
            condition = tf.math.is_finite(norm)
        details = self._optimizer.apply(clipped, learning_rate, condition)
        if self._averages is not None:
            self._averages.update(average_decay, condition)
        if not self._log_update_norms:
            details = {}
        self.detail_names = tuple(details)
        self.row_names = (*self._metric_names, *details, "gradient_norm")
        values = tf.stack([*details.values(), norm])
        weights = tf.ones_like(values)
        if condition is not None:
            # At scale 1 skipping is of no use, so it is shown what is wrong.
            shown = tf.logical_or(condition, scale <= 1.0)
            values = tf.where(shown, values, 0.0)
            weights *= tf.cast(shown, tf.float32)
        return tf.stack([values, weights], axis=1)
