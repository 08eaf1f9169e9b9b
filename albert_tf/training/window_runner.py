"""The steps between two looks of the host, and what they measured."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training.averaging import WeightAverages
from albert_tf.training.divergence import Divergence, find_divergence
from albert_tf.training.input_slices import (
    distribute,
    slice_size,
    static_batch_size,
)
from albert_tf.training.interval import Interval
from albert_tf.training.loss_scale import DynamicLossScale
from albert_tf.training.optimizers import AdamW
from albert_tf.training.replica_step import ReplicaStep
from albert_tf.training.task import Task
from albert_tf.training.training_config import TrainingConfig
from albert_tf.training.window import build_window


class WindowRunner:
    """Runs windows of steps over a dataset and adds up their metrics.

    Args:
      config: accumulation, clipping, seed.
      strategy: the strategy of model and optimizer.
      model: the Keras model.
      task: loss and metrics.
      optimizer: built on the model's trainable variables.
      schedule: step -> learning rate.
      dataset: global batches from the first step on.
      loss_scale: the state of the loss scale, for float16.
      averages: moving averages of the weights, to be updated.

    Attributes:
      batch_size: examples of a global batch.

    Raises:
      InputError: the batches cannot be cut into the slices that are asked for.
    """

    def __init__(
        self,
        config: TrainingConfig,
        strategy: tf.distribute.Strategy,
        model: Any,
        task: Task,
        optimizer: AdamW,
        schedule: Callable[[tf.Tensor], tf.Tensor],
        dataset: tf.data.Dataset,
        loss_scale: DynamicLossScale | None = None,
        averages: WeightAverages | None = None,
    ):
        replicas = strategy.num_replicas_in_sync
        if config.jit_compile and replicas > 1:
            raise InputError(
                f"jit_compile=True works on one replica, not {replicas}; leave "
                "it out (a TPU compiles anyway)"
            )
        self.batch_size = static_batch_size(dataset)
        accumulation = config.gradient_accumulation_steps
        self._replica_step = ReplicaStep(
            model,
            task,
            optimizer,
            accumulation=accumulation,
            slice_size=slice_size(self.batch_size, replicas, accumulation),
            clip_norm=config.clip_norm,
            skip_overflow=loss_scale is not None,
            averages=averages,
            log_update_norms=config.log_update_norms,
        )
        self._run_window = build_window(
            strategy,
            self._replica_step,
            schedule,
            seed=config.seed,
            loss_scale=loss_scale,
            averages=averages,
            jit_compile=config.jit_compile,
        )
        self._schedule = schedule
        self._loss_scale = loss_scale
        self._max_loss = config.max_loss
        self._strategy = strategy
        self.read_from(dataset)

    def read_from(self, dataset: tf.data.Dataset) -> None:
        """Goes on with the batches of a dataset like that before."""
        self._iterator = iter(distribute(self._strategy, dataset))
        self._interval = Interval(self.batch_size)

    def run(self, step: int, steps: int) -> None:
        """Runs the next `steps` steps, the first of which is `step`.

        Raises:
          InputError: the dataset ended.
          Divergence: a loss or a gradient is not acceptable.
        """
        started = time.perf_counter()
        try:
            rows = self._run_window(
                self._iterator,
                tf.constant(step, tf.int64),
                tf.constant(steps, tf.int64),
            ).numpy()
        except tf.errors.OutOfRangeError as error:
            raise InputError(
                f"the training data ended between step {step} and "
                f"{step + steps}; repeat the dataset or lower total_steps"
            ) from error
        self._interval.add(rows, time.perf_counter() - started)
        bad = find_divergence(rows, self._max_loss)
        if bad:
            offset, reason = bad
            raise Divergence(step + offset, reason, self.batch_size)

    def read_metrics(
        self, step: int
    ) -> tuple[dict[str, float], dict[str, float]]:
        """Returns what was measured since the last call, after `step` updates.

        Returns:
          The metrics by name, and the details of the optimizer by name (see
          `AdamW.apply`), means over the steps; none without
          `config.log_update_norms`.
        """
        metrics = self._interval.read(self._replica_step.row_names)
        details = {
            name: metrics.pop(name) for name in self._replica_step.detail_names
        }
        metrics["learning_rate"] = float(self._schedule(step - 1))
        if self._loss_scale is not None:
            metrics["loss_scale"] = float(self._loss_scale.scale)
        return metrics, details
