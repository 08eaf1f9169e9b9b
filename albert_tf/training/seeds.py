"""Random seeds as functions of seed, step and slice of the global batch.

Philox is named because "auto_select" may pick another generator on an
accelerator: the seeds would then depend on the device.
"""

from __future__ import annotations

import tensorflow as tf


def step_seed(seed: int, step: tf.Tensor) -> tf.Tensor:
    """Returns the seed of one step, int32 [2].

    Args:
      seed: the seed of the run, in [0, 2**31).
      step: integer scalar.
    """
    return _fold_in(tf.constant([seed, 0], tf.int32), step)


def slice_seed(seed_of_step: tf.Tensor, slice_index: tf.Tensor) -> tf.Tensor:
    """Returns the seed of one slice of the global batch, int32 [2].

    The slices of one step are counted over replicas and, within a replica, over
    micro-batches. So the same global batch cut into the same number of
    slices gets the same seeds, whether by replicas or by accumulation.
    """
    return _fold_in(seed_of_step, slice_index)


def _fold_in(seed: tf.Tensor, data: tf.Tensor) -> tf.Tensor:
    return tf.random.experimental.stateless_fold_in(
        seed, tf.cast(data, tf.int32), alg="philox"
    )
