"""Many training steps as one call of the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from albert_tf.training.averaging import WeightAverages
from albert_tf.training.loss_scale import DynamicLossScale
from albert_tf.training.replica_step import ReplicaStep
from albert_tf.training.seeds import step_seed


def build_window(
    strategy: tf.distribute.Strategy,
    replica_step: ReplicaStep,
    schedule: Callable[[tf.Tensor], tf.Tensor],
    *,
    seed: int,
    loss_scale: DynamicLossScale | None = None,
    averages: WeightAverages | None = None,
    jit_compile: bool = False,
) -> Callable[[Any, tf.Tensor, tf.Tensor], tf.Tensor]:
    """Builds the function that runs consecutive steps without the host.

    Args:
      strategy: the strategy of model, optimizer and iterator.
      replica_step: the step.
      schedule: learning rate of a step (from 0).
      seed: of the run.
      loss_scale: state of the loss scale, updated after every step.
      averages: those that `replica_step` updates.
      jit_compile: compile the step with XLA.

    Returns:
      `run(iterator, first_step, steps)` with int64 scalars, traced once for all
      of their values. It returns float32 [steps, rows, 2]: what `replica_step`
      returned, step after step.
    """
    if jit_compile:
        step_function = tf.function(
            replica_step, jit_compile=True, autograph=False
        )
    else:
        step_function = replica_step

    def one_step(iterator, step):
        scale = tf.ones([]) if loss_scale is None else loss_scale.scale
        arguments = (schedule(step), step_seed(seed, step), scale)
        if averages is not None:
            arguments += (averages.decay_at(step),)
        result = strategy.run(
            step_function, args=(iterator.get_next(), *arguments)
        )
        row = strategy.experimental_local_results(result)[0]
        if loss_scale is not None:
            loss_scale.update(row[-1, 1] > 0.0)
        return row

    @tf.function(autograph=False)
    def run(iterator, first_step, steps):
        def body(offset, rows):
            row = one_step(iterator, first_step + offset)
            return offset + 1, rows.write(tf.cast(offset, tf.int32), row)

        _, rows = tf.while_loop(
            lambda offset, _: offset < steps,
            body,
            (
                tf.zeros([], tf.int64),
                tf.TensorArray(tf.float32, tf.cast(steps, tf.int32)),
            ),
            parallel_iterations=1,
        )
        return rows.stack()

    return run
