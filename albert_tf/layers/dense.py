"""Dense layers, their activations and initializers."""

from __future__ import annotations

from collections.abc import Callable

import keras

from albert_tf.config import AlbertConfig


def truncated_normal(stddev: float) -> keras.initializers.Initializer:
    """Returns a new initializer: one for each weight, never shared.

    A Keras initializer with an explicit or drawn seed repeats its values, so
    two kernels of one shape would start out equal if they shared it.
    """
    return keras.initializers.TruncatedNormal(stddev=stddev)


# Keys are `albert_tf.config.ACTIVATIONS`.
_FUNCTIONS = {
    # Google's one GELU: the tanh approximation, in every English checkpoint.
    "gelu_tanh": lambda x: keras.ops.gelu(x, approximate=True),
    "gelu_erf": lambda x: keras.ops.gelu(x, approximate=False),
    "relu": keras.ops.relu,  # Google's Chinese checkpoints
    "tanh": keras.ops.tanh,
    "linear": lambda x: x,
}


def activation(name: str) -> Callable:
    """Returns the function for a validated `AlbertConfig.hidden_act`."""
    return _FUNCTIONS[name]


def dense(
    config: AlbertConfig,
    size: int,
    name: str,
    dtype,
    activation: str | Callable | None = None,
    use_bias: bool = True,
) -> keras.layers.Dense:
    """Returns a dense layer, initialized as the original's.

    Args:
      config: gives the initializer's range.
      size: features of the output.
      name: of the layer, and so of its variables.
      dtype: dtype policy of the layer it belongs to.
      activation: applied to the output.
      use_bias: whether it has a bias.
    """
    return keras.layers.Dense(
        size,
        activation=activation,
        use_bias=use_bias,
        kernel_initializer=truncated_normal(config.initializer_range),
        name=name,
        dtype=dtype,
    )
