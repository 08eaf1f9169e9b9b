import hashlib

import numpy as np
import pytest

from albert_tf.exporting.manifest import weights_fingerprint

WEIGHTS = {
    "a/kernel": np.arange(6, dtype="float32").reshape(2, 3),
    "b": np.zeros(2, "float32"),
}


def test_fingerprint_can_be_computed_elsewhere():
    expected = hashlib.sha256(
        b"a/kernel float32 [2, 3]\n"
        + np.array([0, 1, 2, 3, 4, 5], "<f4").tobytes()
        + b"b float32 [2]\n"
        + bytes(8)
    ).hexdigest()
    assert weights_fingerprint(WEIGHTS) == expected


def test_order_and_memory_layout_do_not_matter():
    shuffled = {
        "b": WEIGHTS["b"].astype(">f4"),
        "a/kernel": np.asfortranarray(WEIGHTS["a/kernel"]),
    }
    assert weights_fingerprint(shuffled) == weights_fingerprint(WEIGHTS)


@pytest.mark.parametrize(
    "change",
    [
        {"b": np.array([0, 1e-30], "float32")},
        {"b": np.zeros((2, 1), "float32")},
        {"b": np.zeros(2, "int32")},
        {"c": np.zeros(0, "float32")},
    ],
)
def test_everything_else_matters(change):
    changed = weights_fingerprint({**WEIGHTS, **change})
    assert changed != weights_fingerprint(WEIGHTS)
