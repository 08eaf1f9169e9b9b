"""The dense layer of every ALBERT part."""

from __future__ import annotations

from collections.abc import Callable

import keras

from albert_tf.config import AlbertConfig
from albert_tf.layers.initializers import truncated_normal


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
      dtype: dtype policy of the part it belongs to.
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
