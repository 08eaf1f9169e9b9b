"""Dense layers and LayerNorm, as accurate in half precision."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NoReturn

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError


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


def truncated_normal(stddev: float) -> keras.initializers.Initializer:
    """Returns a new initializer: one for each weight, never shared.

    A Keras initializer with an explicit or drawn seed repeats its values, so
    two kernels of one shape would start out equal if they shared it.
    """
    return keras.initializers.TruncatedNormal(stddev=stddev)


def _gelu_tanh(x):
    """Google's one GELU: the tanh approximation."""
    if keras.backend.standardize_dtype(x.dtype) != "float16":
        return ops.gelu(x, approximate=True)
    # The cube overflows at 41, and the gradient is NaN from 256 on. At 10, the
    # tanh has long been 1.
    near = ops.clip(x, -10.0, 10.0)
    inner = near * (1.0 + 0.044715 * near * near)
    return 0.5 * x * (1.0 + ops.tanh(math.sqrt(2.0 / math.pi) * inner))


# Keys are `albert_tf.config.ACTIVATIONS`.
_FUNCTIONS = {
    "gelu_tanh": _gelu_tanh,  # every English checkpoint
    "gelu_erf": lambda x: ops.gelu(x, approximate=False),
    "relu": ops.relu,  # Google's Chinese checkpoints
    "tanh": ops.tanh,
    "linear": lambda x: x,
}


def activation(name: str) -> Callable:
    """Returns the function for a validated `AlbertConfig.hidden_act`."""
    return _FUNCTIONS[name]


class Dense(keras.layers.Dense):
    """Keras's dense layer with `add_bias`; it cannot be quantized.

    In training, tanh-GELU may be that of `layers.recomputed`.
    """

    def call(self, inputs, training=None):
        """`[..., features]` -> `[..., units]`."""
        x = ops.matmul(inputs, self.kernel)
        if self.bias is not None:
            x = add_bias(x, self.bias)
        if self.activation is None:
            return x
        on_tensorflow = keras.backend.backend() == "tensorflow"
        if on_tensorflow and self.activation is _gelu_tanh:
            from albert_tf.layers import recomputed

            if recomputed.is_used(x, training):
                return recomputed.gelu_tanh(x)
        return self.activation(x)

    def quantize(self, mode=None, *args, **kwargs):
        """Raises an `InputError`; see `refuse_quantization`."""
        refuse_quantization(mode)


def refuse_quantization(mode: str | None) -> NoReturn:
    """Raises an `InputError`.

    Attention joins three kernels into one, whose scales would be lost, and
    checkpoints of ALBERT have no place for scales.
    """
    raise InputError(
        f"quantize({mode!r}): an ALBERT model computes in floating point; use "
        "dtype='bfloat16', or export(kind='litert', ...) for 8 bits"
    )


def dense(
    config: AlbertConfig,
    size: int,
    name: str,
    dtype,
    activation: str | Callable | None = None,
    use_bias: bool = True,
) -> Dense:
    """Returns a dense layer, initialized as the original's.

    Args:
      config: gives the initializer's range.
      size: features of the output.
      name: of the layer, and so of its variables.
      dtype: dtype policy of the layer it belongs to.
      activation: applied to the output.
      use_bias: whether it has a bias.
    """
    return Dense(
        size,
        activation=activation,
        use_bias=use_bias,
        kernel_initializer=truncated_normal(config.initializer_range),
        name=name,
        dtype=dtype,
    )


class LayerNorm(keras.layers.Layer):
    """Normalizes the last axis, then scales by gamma and adds beta.

    Mean and variance are taken in float32 (a float32 island under mixed
    precision: with epsilon 1e-12 a half-precision variance would underflow);
    the result has the compute dtype. `keras.layers.LayerNormalization` takes
    twice the time on a CPU.

    Args:
      epsilon: added to the variance; the original's is 1e-12.
    """

    def __init__(self, epsilon: float, **kwargs):
        super().__init__(**kwargs)
        self.epsilon = epsilon

    def build(self, input_shape):
        """Makes gamma and beta `[size]`."""
        size = input_shape[-1]
        # autocast=False: the weights stay float32 in the float32 island.
        self.gamma = self.add_weight(
            shape=(size,), initializer="ones", name="gamma", autocast=False
        )
        self.beta = self.add_weight(
            shape=(size,), initializer="zeros", name="beta", autocast=False
        )

    def call(self, inputs, training=None):
        """Returns the normalized inputs, same shape.

        In training, it may be that of `layers.recomputed`.
        """
        x = at_least_float32(inputs)
        gamma, beta = (ops.cast(w, x.dtype) for w in (self.gamma, self.beta))
        if keras.backend.backend() == "tensorflow":
            from albert_tf.layers import recomputed

            if recomputed.is_used(inputs, training):
                # Not of `x`, whose float32 would be kept for the gradient.
                outputs = recomputed.layer_norm(
                    inputs, gamma, beta, self.epsilon
                )
                return ops.cast(outputs, self.compute_dtype)
        centered = x - ops.mean(x, axis=-1, keepdims=True)
        variance = ops.mean(ops.square(centered), axis=-1, keepdims=True)
        normal = centered * ops.rsqrt(variance + self.epsilon)
        return ops.cast(normal * gamma + beta, self.compute_dtype)
