"""The train step, and loops of steps on the device."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.tensor_ops import fold_in
from albert_tf.training.averaging import WeightAverages
from albert_tf.training.config import TrainingConfig
from albert_tf.training.input import MISCOUNTED, GlobalBatches, distribute
from albert_tf.training.loss import Loss
from albert_tf.training.loss_scale import DynamicLossScale
from albert_tf.training.optimizers import (
    AdamW,
    by_name,
    clip_by_global_norm,
    densify,
)
from albert_tf.training.workers import mean_over_workers

# Preempted cloud machines have 30 seconds; the rest is for the checkpoint.
_LAUNCH_SECONDS = 10.0
# FailedPreconditionError is that of a dataset declared infinite.
_OUT_OF_DATA = tf.errors.OutOfRangeError, tf.errors.FailedPreconditionError


class TrainStep:
    """One update of the weights.

    Gradients are summed over micro-batches and replicas, and then clipped once.
    All reductions over replicas are at the top level of the step, because
    TensorFlow does not support them inside a conditional or a loop.

    The optimizer is built on the model's trainable variables.
    `micro_batch_size` is the number of examples per micro-batch. With a
    `loss_scale`, a step whose gradients are not finite changes only the scale.
    `averages` are those to update.

    Attributes:
      row_names: names of the rows of the result; empty before the first trace.
      detail_names: the subset of `row_names` that the optimizer returns.
    """

    def __init__(
        self,
        config: TrainingConfig,
        model: Any,
        loss: Loss,
        optimizer: AdamW,
        *,
        micro_batch_size: int,
        loss_scale: DynamicLossScale | None = None,
        averages: WeightAverages | None = None,
    ):
        self.config = config
        self.loss_scale = loss_scale
        self.averages = averages
        self._model = model
        self._loss = loss
        self._optimizer = optimizer
        self._micro_batches = config.gradient_accumulation_steps
        self._micro_batch_size = micro_batch_size
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
            `[micro_batches * micro_batch_size, ...]`.
          learning_rate: float32 scalar.
          seed: int32 `[2]`, the seed of the step.
          scale: float32 scalar, the loss scale; 1 without loss scaling.
          average_decay: float32 scalar, the decay of the averages, if any.

        Returns:
          float32 `[rows, 2]`, the same on every replica: weighted sum and
          weight of each of `row_names` over the global batch. The gradient norm
          before clipping is the last row. It and the optimizer's details have
          weight 0 if the step overflowed, so that the scale must be halved.
        """
        replica = tf.distribute.get_replica_context()
        batch = _with_batch_axes(
            batch, self._micro_batches * self._micro_batch_size
        )
        normalizers = dict(self._loss.normalizers(batch))
        if normalizers:
            normalizers = replica.all_reduce(
                tf.distribute.ReduceOp.SUM, normalizers
            )
        # Slices are numbered across replicas and micro-batches, so the seeds
        # depend only on the number of slices, not on what cuts the batch.
        first_slice = replica.replica_id_in_sync_group * self._micro_batches

        def micro_step(micro_batch, index):
            return self._micro_step(
                micro_batch,
                normalizers,
                fold_in(seed, tf.cast(first_slice + index, tf.int32)),
                scale,
            )

        if self._micro_batches == 1:
            gradients, rows = micro_step(batch, 0)
        else:
            gradients, rows = self._accumulate(micro_step, batch)
        # Variables that the loss does not depend on have no gradient.
        gradients = {n: g for n, g in gradients.items() if g is not None}
        gradients, rows = replica.all_reduce(
            tf.distribute.ReduceOp.SUM, (gradients, rows)
        )
        updates = self._update(gradients, learning_rate, scale, average_decay)
        loss = rows[:1] + [[0.0, 1.0]]
        return tf.concat([loss, rows[1:], updates], axis=0)

    def _micro_step(self, batch, normalizers, seed, scale):
        """Returns gradients by variable name, and metrics `[metrics, 2]`."""
        with tf.GradientTape() as tape:
            loss, metrics = self._loss(self._model, batch, normalizers, seed)
            scaled_loss = loss * scale
        gradients = tape.gradient(scaled_loss, list(self._variables.values()))
        gradients = dict(zip(self._variables, densify(gradients), strict=True))
        if all(gradient is None for gradient in gradients.values()):
            raise InputError(
                "the loss depends on no trainable variable; unfreeze the "
                "layers that it is computed from"
            )
        names = sorted(metrics)
        self._metric_names = ("loss", *names)
        rows = [tf.stack([loss, 0.0]), *(metrics[name] for name in names)]
        return gradients, tf.stack(rows)

    def _accumulate(self, micro_step, batch):
        """Sums the results of `micro_step` over micro-batches, in float32."""
        batch = _with_batch_axes(
            batch, self._micro_batches, self._micro_batch_size
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
            lambda index, *_: index < self._micro_batches,
            body,
            (0, zeros, tf.TensorArray(tf.float32, self._micro_batches)),
            maximum_iterations=self._micro_batches,
            # Keep the activations of only one micro-batch in memory.
            parallel_iterations=1,
        )
        sums = {n: None if n in unused else total for n, total in sums.items()}
        return sums, tf.reduce_sum(rows.stack(), axis=0)

    def _update(self, gradients, learning_rate, scale, average_decay):
        """Clips and applies; returns rows of the details and gradient norm."""
        condition = None
        if self.loss_scale is not None:
            gradients = {n: g / scale for n, g in gradients.items()}
        ordered = [gradients.get(name) for name in self._variables]
        clipped, norm = clip_by_global_norm(ordered, self.config.clip_norm)
        if self.loss_scale is not None:
            condition = tf.math.is_finite(norm)
        details = self._optimizer.apply(clipped, learning_rate, condition)
        if self.averages is not None:
            self.averages.update(average_decay, condition)
        if not self.config.log_update_norms:
            details = {}
        self.detail_names = tuple(details)
        self.row_names = (*self._metric_names, *details, "gradient_norm")
        values = tf.stack([*details.values(), norm])
        weights = tf.ones_like(values)
        if condition is not None:
            # The scale is never below 1: report what overflows there.
            reported = tf.logical_or(condition, scale <= 1.0)
            values = tf.where(reported, values, 0.0)
            weights *= tf.cast(reported, tf.float32)
        return tf.stack([values, weights], axis=1)


def _with_batch_axes(batch: Any, *axes: int) -> Any:
    """Reshapes the batch axis of all tensors to axes of static sizes."""
    return tf.nest.map_structure(
        lambda x: (
            tf.reshape(x, tf.concat([axes, tf.shape(x)[1:]], 0))
            if None in x.shape[1:]
            else tf.reshape(x, [*axes, *x.shape[1:]])
        ),
        batch,
    )


def make_train_loop(
    strategy: tf.distribute.Strategy,
    train_step: TrainStep,
    schedule: Callable[[tf.Tensor], tf.Tensor],
) -> Callable[[Any, tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]:
    """Returns a function that runs several steps without returning to the host.

    It is `run(iterator, first_step, steps)`; both numbers are int32 scalars, so
    it is traced once. It returns the results of `train_step`, float32
    `[steps, rows, 2]`, and the seconds spent waiting for batches, a float64
    scalar. `schedule` is step (from 0) -> learning rate.
    """
    seed = train_step.config.seed
    loss_scale, averages = train_step.loss_scale, train_step.averages
    on_replica: Callable = train_step
    if train_step.config.jit_compile:
        on_replica = tf.function(train_step, jit_compile=True, autograph=False)

    def next_batch(iterator):
        with tf.device("CPU:0"):
            requested = tf.timestamp()
        with tf.control_dependencies([requested]):
            batch = iterator.get_next()
        tensors = tf.nest.flatten(batch, expand_composites=True)
        with tf.control_dependencies(tensors), tf.device("CPU:0"):
            received = tf.timestamp()
        if strategy.num_replicas_in_sync == 1:
            # With a single inter-op thread, operations of the step could
            # otherwise run before the clock is read.
            with tf.control_dependencies([received]):
                batch = tf.nest.map_structure(tf.identity, batch)
        return batch, received - requested

    def one_step(iterator, step):
        batch, waited = next_batch(iterator)
        scale = tf.ones([]) if loss_scale is None else loss_scale.scale
        seed_of_step = fold_in(
            tf.constant([seed, 0], tf.int32), tf.cast(step, tf.int32)
        )
        arguments = (schedule(step), seed_of_step, scale)
        if averages is not None:
            arguments += (averages.decay_at(step),)
        result = strategy.run(on_replica, args=(batch, *arguments))
        row = strategy.experimental_local_results(result)[0]
        if loss_scale is not None:
            loss_scale.update(row[-1, 1] > 0.0)
        return row, waited

    @tf.function(autograph=False)
    def run(iterator, first_step, steps):
        def body(offset, rows, seconds):
            row, waited = one_step(iterator, first_step + offset)
            with tf.device("CPU:0"):
                seconds += waited
            return offset + 1, rows.write(offset, row), seconds

        # GPU kernels keep int32 counters in host memory. An int64 would be
        # copied from the device, after everything before it is done.
        _, rows, seconds = tf.while_loop(
            lambda offset, *_: offset < steps,
            body,
            (
                tf.zeros([], tf.int32),
                tf.TensorArray(tf.float32, steps),
                tf.zeros([], tf.float64),
            ),
            parallel_iterations=1,
        )
        return rows.stack(), seconds

    return run


class TrainLoop:
    """Runs the steps of a phase, several per launch.

    A launch cannot be interrupted: after a signal its steps are finished first.
    So the first launch has one step, and later ones have as many as take about
    10 seconds, at most `max_steps`.

    Attributes:
      launch_steps: number of steps of the next launch.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        train_step: TrainStep,
        schedule: Callable[[tf.Tensor], tf.Tensor],
        max_steps: int,
    ):
        self._strategy = strategy
        self._run = make_train_loop(strategy, train_step, schedule)
        self._mean = mean_over_workers(strategy)
        self._max_steps = max_steps
        self._compiled = False
        self._iterator: Iterator[Any] | None = None
        self.launch_steps = 1

    def set_data(self, data: GlobalBatches) -> None:
        """Trains on these batches from the next step on."""
        self._iterator = iter(
            distribute(
                self._strategy,
                data.dataset,
                endless=True,
                per_host_fn=data.per_host_fn,
            )
        )

    def run(self, step: int, end: int) -> tuple[np.ndarray, float, float]:
        """Runs the steps in [`step`, `end`), counted from 0.

        Returns:
          The results, float `[steps, rows, 2]`, see `TrainStep`; the wall time
          in seconds; and the part of it spent waiting for batches.
        """
        started = time.perf_counter()
        try:
            results, waited = self._run(
                self._iterator,
                tf.constant(step, tf.int32),
                tf.constant(end - step, tf.int32),
            )
            rows = results.numpy()
        except _OUT_OF_DATA as error:
            if MISCOUNTED.search(str(error)):
                raise
            raise InputError(
                f"the training data ended between step {step} and {end}; "
                "repeat the dataset or lower num_train_steps"
            ) from error
        seconds = time.perf_counter() - started
        # All workers must launch the same number of steps.
        mean = self._mean(seconds)
        if self._compiled:  # The first launch includes compilation.
            limit = steps_within(_LAUNCH_SECONDS, end - step, mean)
            self.launch_steps = min(self._max_steps, limit)
        self._compiled = True
        return rows, seconds, float(waited)


def steps_within(limit: float, steps: int, seconds: float) -> int:
    """Returns how many steps fit in `limit` seconds, at least 1."""
    return max(1, int(limit * steps / max(seconds, 1e-9)))
