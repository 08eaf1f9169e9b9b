"""Computations that need float32 where a layer is in half precision."""

from __future__ import annotations

import keras
from keras import ops


def at_least_float32(x):
    """Casts a half-precision tensor to float32; returns any other as it is."""
    dtype = keras.backend.standardize_dtype(x.dtype)
    return ops.cast(x, "float64" if dtype == "float64" else "float32")


def add_bias(x, bias):
    """Adds a bias to the last axis, whose gradient is summed in float32.

    TensorFlow sums the gradient of a bfloat16 bias one by one in bfloat16 on
    CPUs, so that a sum of ones stops at 256. Products are accumulated in
    float32 everywhere, and take no longer.

    Args:
      x: `[..., size]`.
      bias: `[size]`.
    """
    halves = ("bfloat16", "float16")
    if (
        keras.backend.backend() != "tensorflow"
        or keras.backend.standardize_dtype(x.dtype) not in halves
    ):
        return ops.add(x, bias)
    import tensorflow as tf

    @tf.custom_gradient
    def add(x, bias):
        def gradient(upstream):
            rows = tf.reshape(upstream, [-1, upstream.shape[-1]])
            ones = tf.ones([1, tf.shape(rows)[0]], rows.dtype)
            return upstream, tf.matmul(ones, rows)[0]

        return tf.nn.bias_add(x, bias), gradient

    return add(x, tf.cast(bias, x.dtype))
