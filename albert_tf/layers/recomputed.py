"""GELU and LayerNorm for training with TensorFlow on static shapes.

Differentiated op by op, tanh-GELU keeps five tensors for the backward pass and
LayerNorm two float32 ones. Here the backward pass keeps the input alone and
computes the rest again, in float32 whatever the precision. XLA compiles each
pass to one loop over memory; the matrix products stay with oneDNN, which is
faster at them on CPUs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

_SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)
_CUBIC = 0.044715


def is_used(x: Any, training: bool | None) -> bool:
    """Returns whether a layer's call is to use these functions.

    That is in training, in a graph, and with the static shapes of pretraining:
    XLA compiles for each shape anew, and rows without padding have another one
    in each batch. Inference stays free of XLA, and TensorFlow fuses bias and
    GELU with the product before them. SavedModels have dynamic shapes, and so
    no custom gradients, which cannot take sparse gradients when loaded.
    """
    return bool(
        training and not tf.executing_eagerly() and x.shape.is_fully_defined()
    )


# AutoGraph would look inside of a custom gradient, and lose it.
@tf.autograph.experimental.do_not_convert
def gelu_tanh(x: Any) -> Any:
    """Returns the tanh approximation of GELU (Hendrycks & Gimpel, 2016)."""

    @tf.custom_gradient
    def gelu(x):
        def gradient(upstream):
            return _compiled(_gelu_tanh_gradient)(x, upstream)

        return _compiled(_gelu_tanh)(x), gradient

    return gelu(x)


@tf.autograph.experimental.do_not_convert
def layer_norm(x: Any, gamma: Any, beta: Any, epsilon: float) -> tf.Tensor:
    """Returns the LayerNorm of the last axis, with the dtype of `x`.

    Args:
      x: `[..., size]`.
      gamma, beta: `[size]`, in the precision to compute in.
      epsilon: added to the variance.
    """

    @tf.custom_gradient
    def normalize(x, gamma, beta):
        small = tf.constant(epsilon, gamma.dtype)

        def gradient(upstream):
            return _compiled(_layer_norm_gradient)(x, gamma, small, upstream)

        return _compiled(_layer_norm)(x, gamma, beta, small), gradient

    return normalize(x, gamma, beta)


@functools.cache
def _compiled(function: Callable) -> Callable:
    return tf.function(function, jit_compile=True)


def _widen(x):
    """Casts half precision to float32; `core`, which can, imports this."""
    return x if x.dtype == tf.float64 else tf.cast(x, tf.float32)


def _gelu_tanh(x):
    y = _widen(x)
    return tf.cast(0.5 * y * (1.0 + _tanh(y)), x.dtype)


def _gelu_tanh_gradient(x, upstream):
    y = _widen(x)
    t = _tanh(y)
    slope = _SQRT_2_OVER_PI * (1.0 + 3.0 * _CUBIC * y * y)
    # Far out, 1 - t is exactly 0 long before the slope overflows.
    gradient = 0.5 * (1.0 + t) * (1.0 + y * (1.0 - t) * slope)
    return tf.cast(_widen(upstream) * gradient, x.dtype)


def _tanh(y):
    return tf.tanh(y * (_SQRT_2_OVER_PI * (1.0 + _CUBIC * y * y)))


def _layer_norm(x, gamma, beta, epsilon):
    normal, _ = _normal(tf.cast(x, gamma.dtype), epsilon)
    return tf.cast(normal * gamma + beta, x.dtype)


def _layer_norm_gradient(x, gamma, epsilon, upstream):
    normal, scale = _normal(tf.cast(x, gamma.dtype), epsilon)
    upstream = tf.cast(upstream, gamma.dtype)
    of_normal = upstream * gamma
    along = tf.reduce_mean(of_normal * normal, axis=-1, keepdims=True)
    mean = tf.reduce_mean(of_normal, axis=-1, keepdims=True)
    rows = list(range(x.shape.rank - 1))
    return (
        tf.cast(scale * (of_normal - mean - normal * along), x.dtype),
        tf.reduce_sum(upstream * normal, rows),
        tf.reduce_sum(upstream, rows),
    )


def _normal(x, epsilon):
    """Returns the normalized last axis, and one over its deviation."""
    centered = x - tf.reduce_mean(x, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centered), axis=-1, keepdims=True)
    scale = tf.math.rsqrt(variance + epsilon)
    return centered * scale, scale
