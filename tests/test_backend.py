import keras
import pytest

from albert_tf.backend import check_backend
from albert_tf.errors import InputError


def test_other_backends_than_tensorflow(monkeypatch):
    check_backend("HubLayer")
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    message = "HubLayer needs KERAS_BACKEND=tensorflow, not 'jax'"
    with pytest.raises(InputError, match=message):
        check_backend("HubLayer")
