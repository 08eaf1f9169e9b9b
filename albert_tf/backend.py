"""Check of Keras's backend."""

from __future__ import annotations

import keras

from albert_tf.errors import InputError


def check_backend(what: str) -> None:
    """Raises an `InputError` if Keras's backend is not TensorFlow.

    Args:
      what: what computes with TensorFlow alone, for the error message.
    """
    backend = keras.backend.backend()
    if backend != "tensorflow":
        raise InputError(
            f"{what} needs KERAS_BACKEND=tensorflow, not {backend!r}"
        )
