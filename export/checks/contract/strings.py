"""What checks of exports that take strings have in common."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

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


def same_outputs(found: dict, wanted: dict, names: list[str], what: str) -> str:
    """Checks that outputs have some names and equal values."""
    expect_same(sorted(found), sorted(names), f"outputs of {what}")
    largest = 0.0
    for name in names:
        if found[name].dtype.is_floating:
            largest = max(largest, difference(found[name], wanted[name], name))
        else:
            equal = np.array_equal(found[name], wanted[name])
            expect(equal, f"{name} of {what} differs")
    return shown(largest)
