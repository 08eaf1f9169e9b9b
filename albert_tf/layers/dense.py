"""Dense layers, their activations and initializers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NoReturn

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.layers.precision import add_bias


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
