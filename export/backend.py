"""Which backend of Keras exports need."""

from __future__ import annotations

import keras

from albert_tf.errors import InputError


def check_backend() -> None:
    """Raises an `InputError` unless Keras computes with TensorFlow."""
    if keras.backend.backend() != "tensorflow":
        raise InputError(
            "exporting a SavedModel needs KERAS_BACKEND=tensorflow, not "
            f"{keras.backend.backend()!r}"
        )
