"""What checks of exports that take strings have in common."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from .exported import Exported
from .findings import expect, expect_same
from .numbers import difference, shown

TEXTS = ("A film, not bad: 1,000 of 12.", "", "Été " * 200)
_OPTIONS = "options"


def texts() -> tf.Tensor:
    """Returns `TEXTS`, made when asked for: importing starts no devices."""
    return tf.constant(TEXTS)


def example(names: list[str], count: int = len(TEXTS)) -> dict:
    """Returns strings for inputs: two options of each, one of all others."""
    chosen = [TEXTS[i % len(TEXTS)] for i in range(count)]
    return {
        name: tf.reshape(tf.constant(chosen * 2, tf.string), [count, 2])
        if name == _OPTIONS
        else tf.constant(chosen, tf.string)
        for name in names
    }


def dropout(exported: Exported, inputs, name: str) -> str:
    """Checks an output without dropout and with it.

    Args:
      exported: the export.
      inputs: of its object.
      name: of a float output.
    """
    config = exported.manifest["config"]

    def output(function, **arguments):
        return function(inputs, **arguments)[name].numpy()

    root = exported.root
    first, second = output(root), output(root, training=False)
    expect(np.array_equal(first, second), "two calls without training differ")
    rates = [config[f"{x}_dropout_prob"] for x in ("hidden", "attention_probs")]
    for what, function, arguments in (
        ("training=True", root, {"training": True}),
        ("call_training", root.call_training, {}),
    ):
        first, second = (output(function, **arguments) for _ in range(2))
        same = np.array_equal(first, second)
        # A task's head may have dropout of its own.
        expect(not (same and any(rates)), f"{what}: two calls are equal")
    return f"off, and on with rates {rates[0]}, {rates[1]}"


def same_outputs(found: dict, wanted: dict, names: list[str], what: str) -> str:
    """Checks that outputs have some names and equal values."""
    expect_same(sorted(found), sorted(names), f"outputs of {what}")
    largest = 0.0
    for name in names:
        if wanted[name].dtype.is_floating:
            largest = max(largest, difference(found[name], wanted[name], name))
        else:
            equal = np.array_equal(found[name], wanted[name])
            expect(equal, f"{name} of {what} differs")
    return shown(largest)
