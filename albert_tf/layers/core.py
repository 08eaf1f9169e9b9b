"""Dense layers and LayerNorm that stay accurate in half precision."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NoReturn

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError


def at_least_float32(x):
    """Casts a tensor to float32, unless it is float64."""
    dtype = keras.backend.standardize_dtype(x.dtype)
    return ops.cast(x, "float64" if dtype == "float64" else "float32")


def add_bias(x, bias):
    """Adds a bias to the last axis; its gradient is accumulated in float32.

    On CPUs, TensorFlow accumulates the gradient of a bfloat16 bias in bfloat16,
    in which a sum of ones stops at 256. Here it is a matrix product, which is
    accumulated in float32 everywhere and takes no longer.

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


def product(x, kernel, bias):
    """Multiplies `[..., features]` by a kernel, and adds a bias.

    Args:
      x: `[..., features]`.
      kernel: `[features, size]`.
      bias: `[size]`.
    """
    return add_bias(ops.matmul(x, kernel), bias)


def truncated_normal(stddev: float) -> keras.initializers.Initializer:
    """Returns a new initializer, to be used for a single weight.

    A Keras initializer returns the same values in each call, so kernels of the
    same shape that shared one would be equal.
    """
    return keras.initializers.TruncatedNormal(stddev=stddev)


def _gelu_tanh(x):
    """The tanh approximation of GELU, the only one in Google's code."""
    if keras.backend.standardize_dtype(x.dtype) != "float16":
        return ops.gelu(x, approximate=True)
    # In float16, the cube overflows at 41, and the gradient is NaN from 256 on.
    # From 10 on, the tanh is 1.
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
    """Returns the function of an `AlbertConfig.hidden_act`."""
    return _FUNCTIONS[name]


class Dense(keras.layers.Dense):
    """Keras's dense layer with `add_bias`; it cannot be quantized.

    In training, tanh-GELU may be computed by `layers.recomputed`.
    """

    def call(self, inputs, training=None):
        """Maps `[..., features]` to `[..., units]`."""
        x = ops.matmul(inputs, self.kernel)
        if self.bias is not None:
            x = add_bias(x, self.bias)
        if self.activation is None:
            return x
        on_tensorflow = keras.backend.backend() == "tensorflow"
        if on_tensorflow and self.activation is _gelu_tanh:
            from albert_tf.layers import recomputed

            if recomputed.is_applicable(x, training):
                return recomputed.gelu_tanh(x)
        return self.activation(x)

    def quantize(self, mode=None, *args, **kwargs):
        """Raises an `InputError`; see `refuse_quantization`."""
        refuse_quantization(mode)


def refuse_quantization(mode: str | None) -> NoReturn:
    """Raises an `InputError`.

    Fusing the attention's kernels would lose their scales, and ALBERT
    checkpoints cannot store any.
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
    """Returns a dense layer with the original's initialization.

    Args:
      config: the architecture, for `initializer_range`.
      size: number of output features.
      name: name of the layer, which is part of its variables' paths.
      dtype: dtype policy of the parent layer.
      activation: activation function.
      use_bias: whether to add a bias.
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
    """Layer normalization of the last axis.

    Mean and variance are computed in float32 in any precision, as epsilon 1e-12
    would underflow in half precision; outputs have the compute dtype.
    `keras.layers.LayerNormalization` takes twice as long on a CPU.

    Args:
      epsilon: added to the variance; 1e-12 in the original.
    """

    def __init__(self, epsilon: float, **kwargs):
        super().__init__(**kwargs)
        self.epsilon = epsilon

    def build(self, input_shape):
        """Creates gamma and beta, `[size]`."""
        size = input_shape[-1]
        # autocast=False: they are used in float32.
        self.gamma = self.add_weight(
            shape=(size,), initializer="ones", name="gamma", autocast=False
        )
        self.beta = self.add_weight(
            shape=(size,), initializer="zeros", name="beta", autocast=False
        )

    def call(self, inputs, training=None):
        """Normalizes `[..., size]`.

        In training, it may be computed by `layers.recomputed`.
        """
        x = at_least_float32(inputs)
        gamma, beta = (ops.cast(w, x.dtype) for w in (self.gamma, self.beta))
        if keras.backend.backend() == "tensorflow":
            from albert_tf.layers import recomputed

            if recomputed.is_applicable(inputs, training):
                # `inputs`, as a float32 `x` would be kept for the gradient.
                outputs = recomputed.layer_norm(
                    inputs, gamma, beta, self.epsilon
                )
                return ops.cast(outputs, self.compute_dtype)
        centered = x - ops.mean(x, axis=-1, keepdims=True)
        variance = ops.mean(ops.square(centered), axis=-1, keepdims=True)
        normal = centered * ops.rsqrt(variance + self.epsilon)
        return ops.cast(normal * gamma + beta, self.compute_dtype)
