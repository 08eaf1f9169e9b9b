"""The activation functions that ALBERT checkpoints name."""

from __future__ import annotations

from collections.abc import Callable

import keras

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
