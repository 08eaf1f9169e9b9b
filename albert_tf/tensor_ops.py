"""The functions of `array_ops.ArrayOps` in a TensorFlow graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf


class TensorOps:
    """TensorFlow functions, and draws that depend on a seed only.

    Integers are int32.

    Args:
      seed: int64 `[2]`; not needed without draws.
    """

    arange = staticmethod(tf.range)
    gather = staticmethod(tf.gather)
    cast = staticmethod(tf.cast)
    concat = staticmethod(tf.concat)
    maximum = staticmethod(tf.maximum)
    minimum = staticmethod(tf.minimum)
    reshape = staticmethod(tf.reshape)
    repeat = staticmethod(tf.repeat)
    where = staticmethod(tf.where)
    zeros = staticmethod(tf.zeros)
    shape = staticmethod(lambda x: tf.unstack(tf.shape(x)))
    integers = staticmethod(lambda x: tf.cast(x, tf.int32))
    any = staticmethod(lambda x: tf.reduce_any(x, axis=1))
    cumsum = staticmethod(lambda x: tf.cumsum(x, axis=1))
    pad = staticmethod(lambda x, n: tf.pad(x, [[0, 0], [0, n]]))
    searchsorted = staticmethod(lambda a, x: tf.searchsorted(a, x, "right"))
    argsort = staticmethod(lambda x: tf.argsort(x, axis=1, stable=True))
    boolean, floating = tf.bool, tf.float32

    def __init__(self, seed: tf.Tensor | None = None):
        self._seed = seed

    def host(self, array: np.ndarray) -> tf.Tensor:
        """See `ArrayOps.host`: input pipelines always run on the host."""
        with tf.device("CPU:0"):
            return tf.constant(array)

    def largest(self, tensor: tf.Tensor) -> tf.Tensor:
        """See `ArrayOps.largest`."""
        return tf.maximum(tf.zeros([], tensor.dtype), tf.reduce_max(tensor))

    def check_sizes(
        self, first: tf.Tensor, second: tf.Tensor, message: str
    ) -> tf.Tensor:
        """See `ArrayOps.check_sizes`."""
        check = tf.debugging.assert_equal(
            tf.size(first), tf.size(second), message
        )
        with tf.control_dependencies([check]):
            return tf.identity(first)

    def bincount(self, tensor: tf.Tensor, minlength: tf.Tensor) -> tf.Tensor:
        """See `ArrayOps.bincount`."""
        return tf.math.bincount(
            tensor, minlength=minlength, maxlength=minlength
        )

    def flatnonzero(self, tensor: tf.Tensor) -> tf.Tensor:
        """See `ArrayOps.flatnonzero`."""
        return tf.cast(tf.where(tf.reshape(tensor, [-1]))[:, 0], tf.int32)

    def replace(
        self, tensor: tf.Tensor, indices: tf.Tensor, values: tf.Tensor
    ) -> tf.Tensor:
        """See `ArrayOps.replace`."""
        return tf.tensor_scatter_nd_update(tensor, indices[..., None], values)

    def while_loop(
        self,
        condition: Callable[..., tf.Tensor],
        body: Callable[..., tuple[tf.Tensor, ...]],
        values: tuple[Any, ...],
    ) -> tuple[tf.Tensor, ...]:
        """See `ArrayOps.while_loop`."""
        return tf.while_loop(condition, body, values, parallel_iterations=1)

    def draw_words(self, shape: list[tf.Tensor]) -> list[tf.Tensor]:
        """See `ArrayOps.draw_words`."""
        draws = tf.random.stateless_uniform(
            tf.stack([2, *shape]), fold_in(self._seed, 0), alg="philox"
        )
        return tf.unstack(draws)

    def draw_replacements(
        self, masked: tf.Tensor, num_ids: int
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """See `ArrayOps.draw_replacements`."""
        seed, shape = fold_in(self._seed, 1), tf.shape(masked)
        integers = tf.random.stateless_uniform(
            shape, fold_in(seed, 0), 0, num_ids, tf.int32, alg="philox"
        )
        uniform = tf.random.stateless_uniform(
            shape, fold_in(seed, 1), alg="philox"
        )
        return integers, uniform


def fold_in(seed: tf.Tensor, number: int | tf.Tensor) -> tf.Tensor:
    """Derives another seed, `[2]`, for an independent random stream.

    It has the type of the number, int32 or int64, and depends on it. It is the
    same on all devices.
    """
    return tf.random.experimental.stateless_fold_in(seed, number, alg="philox")
