"""The steps between two looks of the host, and what they measured."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
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
    ):
        replicas = strategy.num_replicas_in_sync
        if config.jit_compile and replicas > 1:
            raise InputError(
                f"jit_compile=True works on one replica, not {replicas}; leave "
                "it out (a TPU compiles anyway)"
            )
        batch_size = static_batch_size(dataset)
        accumulation = config.gradient_accumulation_steps
        self._replica_step = ReplicaStep(
            model,
            task,
            optimizer,
            accumulation=accumulation,
            slice_size=slice_size(batch_size, replicas, accumulation),
            clip_norm=config.clip_norm,
            skip_overflow=loss_scale is not None,
        )
        self._run_window = build_window(
            strategy,
            self._replica_step,
            schedule,
            seed=config.seed,
            loss_scale=loss_scale,
            jit_compile=config.jit_compile,
        )
        self._schedule = schedule
        self._loss_scale = loss_scale
        self._iterator = iter(distribute(strategy, dataset))
        self._interval = Interval(batch_size)

    def run(self, step: int, steps: int) -> None:
        """Runs the next `steps` steps, the first of which is `step`.

        Raises:
          InputError: the dataset ended.
          FloatingPointError: a loss or a gradient is not finite.
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
        _check_finite(rows, step)

    def read_metrics(self, step: int) -> dict[str, float]:
        """Returns the metrics since the last call, after `step` updates."""
        metrics = self._interval.read(self._replica_step.row_names)
        metrics["learning_rate"] = float(self._schedule(step - 1))
        if self._loss_scale is not None:
            metrics["loss_scale"] = float(self._loss_scale.scale)
        return metrics


def _check_finite(rows: np.ndarray, step: int) -> None:
    """Stops at the first loss or gradient norm that is not finite."""
    for name, row in (("loss", 0), ("gradient norm", -1)):
        bad = ~np.isfinite(rows[:, row, 0])
        if bad.any():
            first = int(np.argmax(bad))
            raise FloatingPointError(
                f"the {name} is {rows[first, row, 0]} at step "
                f"{step + first + 1}; the last checkpoint is from before. "
                "Lower the learning rate or look at the batch of that step"
            )
