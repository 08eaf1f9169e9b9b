"""Stable names of variables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import keras
import tensorflow as tf

Variable = keras.Variable | tf.Variable


def name_of(variable: Variable) -> str:
    """Returns the stable public name: the Keras path or the TF name."""
    if isinstance(variable, keras.Variable):
        return variable.path
    return variable.name.removesuffix(":0")


def tf_variable(variable: Variable) -> tf.Variable:
    """Returns the `tf.Variable` that holds the value."""
    if isinstance(variable, keras.Variable):
        return variable.value
    return variable


def by_name(variables: Iterable[Variable]) -> dict[str, tf.Variable]:
    """Returns the variables keyed by name.

    Raises:
      ValueError: two variables share a name, so no file could tell them apart.
    """
    variables = list(variables)
    counts = Counter(name_of(variable) for variable in variables)
    repeated = [name for name, count in counts.items() if count > 1]
    if repeated:
        raise ValueError(f"several variables are named {repeated[0]!r}")
    return {name_of(variable): tf_variable(variable) for variable in variables}
