import hashlib
import json
import pathlib

import numpy as np
import pytest

from albert_tf.exporting.config import KINDS
from albert_tf.exporting.manifest import read_export, weights_fingerprint
from albert_tf.interop.open_checkpoint import open_checkpoint

MANIFESTS = pathlib.Path(__file__).with_name("manifests.json")
# test_check.py compares them with the files, and test_origin.py the origin.
NUMBERS = ("bytes", "sha256", "weights_sha256", "fingerprint", "origin")

WEIGHTS = {
    "a/kernel": np.arange(6, dtype="float32").reshape(2, 3),
    "b": np.zeros(2, "float32"),
}


def described(values):
    """Returns what does not depend on random weights or on this machine."""
    found = {}
    for name, value in values.items():
        if name in ("files", "versions"):
            value = sorted(value)
        elif name == "weights":
            value = len(value)
        elif isinstance(value, dict):
            value = described(value)
        if name not in NUMBERS:
            found[name] = value
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_manifests(exports, kind):
    """They have what programs read that open exports."""
    source, folder = exports[kind]
    values = described(read_export(folder))
    if "config" in values:
        path = source / "model" if kind == "task" else source
        checkpoint = open_checkpoint(path, head="classifier_head")
        assert values.pop("config") == checkpoint.config.to_dict()
    assert values == json.loads(MANIFESTS.read_text())[kind]


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
