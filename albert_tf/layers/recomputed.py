"""GELU and LayerNorm for training with TensorFlow on static shapes.

Differentiated op by op, tanh-GELU keeps five tensors for the backward pass, and
LayerNorm two in float32. Here only the input is kept, and the backward pass
recomputes the rest, in float32 in any precision. XLA compiles each pass to one
loop over memory; matrix products stay with oneDNN, which is faster at them on
CPUs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

_SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)
_CUBIC = 0.044715


def is_applicable(x: Any, training: bool | None) -> bool:
    """Returns whether a layer should use these functions.

    They are used for training in a graph with static shapes, as in pretraining:
    XLA recompiles for each shape, and packed rows have another one in each
    batch. Inference does not use XLA, so that TensorFlow fuses bias and GELU
    with the preceding product. SavedModels have dynamic shapes, and hence no
    custom gradients, which do not support sparse gradients after loading.
    """
    return bool(
        training and not tf.executing_eagerly() and x.shape.is_fully_defined()
    )


# AutoGraph would convert the function and lose its custom gradient.
@tf.autograph.experimental.do_not_convert
def gelu_tanh(x: Any) -> Any:
    """Computes the tanh approximation of GELU (Hendrycks & Gimpel, 2016)."""

    @tf.custom_gradient
    def gelu(x):
        def gradient(upstream):
            return _compiled(_gelu_tanh_gradient)(x, upstream)

        return _compiled(_gelu_tanh)(x), gradient

    return gelu(x)


@tf.autograph.experimental.do_not_convert
def layer_norm(x: Any, gamma: Any, beta: Any, epsilon: float) -> tf.Tensor:
    """Computes the LayerNorm of the last axis, with the dtype of `x`.

    Args:
      x: `[..., size]`.
      gamma, beta: `[size]`; their dtype is the precision of the computation.
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
    return tf.function(function, jit_compile=True, autograph=False)


def _widen(x):
    """Casts to float32, unless float64; `core` cannot be imported here."""
    return x if x.dtype == tf.float64 else tf.cast(x, tf.float32)


def _gelu_tanh(x):
    y = _widen(x)
    return tf.cast(0.5 * y * (1.0 + _tanh(y)), x.dtype)


def _gelu_tanh_gradient(x, upstream):
    y = _widen(x)
    t = _tanh(y)
    slope = _SQRT_2_OVER_PI * (1.0 + 3.0 * _CUBIC * y * y)
    # For large inputs, 1 - t is exactly 0 long before the slope overflows.
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
    """Returns the normalized values, and 1 / standard deviation."""
    centered = x - tf.reduce_mean(x, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centered), axis=-1, keepdims=True)
    scale = tf.math.rsqrt(variance + epsilon)
    return centered * scale, scale
