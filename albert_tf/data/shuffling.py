"""Shuffling in a graph, by explicit seeds."""

from __future__ import annotations

import tensorflow as tf


def shuffle(values: tf.Tensor, seed: tf.Tensor, number) -> tf.Tensor:
    """Shuffles by (seed, number) alone; `Dataset.shuffle` adds global seeds.

    Args:
      values: `[n]`.
      seed: int64 `[2]`.
      number: a scalar, folded into the seed.
    """
    seed = tf.random.experimental.stateless_fold_in(seed, number)
    keys = tf.random.stateless_uniform(
        tf.shape(values), seed, None, None, tf.int32, alg="philox"
    )
    return tf.gather(values, tf.argsort(keys, stable=True))
