"""Weights of the classes in the loss."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from albert_tf.errors import InputError
from albert_tf.finetuning.features import LABELS, Features
from albert_tf.input_files import parse_json

BALANCED = "balanced"

# By label (others are 1), or of all classes in their order.
ClassWeights = (
    Literal["balanced"] | Mapping[str, float | int] | Sequence[float | int]
)


def parse_class_weights(text: str) -> Any:
    """Parses "balanced", `bad=2,good=1`, `2,1`, or JSON of either of these."""
    text = text.strip()
    if text == BALANCED:
        return text
    try:
        if text.startswith(("{", "[")):
            return parse_json(text, "--class_weights")
        parts = [part.rpartition("=") for part in text.split(",")]
        if all(equals for _, equals, _ in parts):
            return {label.strip(): float(weight) for label, _, weight in parts}
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(
            f"--class_weights={text} must be balanced, LABEL=WEIGHT,... or "
            "WEIGHT,... in the order of the labels"
        ) from None


def class_weights_of(
    given: ClassWeights, labels: Sequence[str], features: Features
) -> tuple[float, ...]:
    """Returns the weight of each class.

    Balanced weights are `examples / (classes * count)`, as scikit-learn's
    `compute_class_weight`: the classes have equal shares of the loss. For
    labels of words, all words count.

    Raises:
      InputError: if the weights do not fit the classes.
    """
    if given == BALANCED:
        return _balanced(labels, features)
    if isinstance(given, Mapping):
        for label in given:
            if label not in labels:
                raise InputError(
                    f"class_weights: {label!r} is not one of the labels "
                    f"{', '.join(labels)}"
                )
        weights = [given.get(label, 1.0) for label in labels]
    else:
        weights = list(given)
        if len(weights) != len(labels):
            raise InputError(
                f"class_weights: {len(weights)} weights for {len(labels)} "
                f"labels; give one for each of {', '.join(labels)}"
            )
    for label, weight in zip(labels, weights, strict=True):
        if not (math.isfinite(weight) and 0 < weight <= 1e6):
            raise InputError(
                f"class_weights: the weight {weight} of {label!r} must be in "
                "(0, 1000000]"
            )
    return tuple(float(weight) for weight in weights)


def _balanced(labels: Sequence[str], features: Features) -> tuple[float, ...]:
    columns = {**features.token_columns, **features.columns}
    ids = columns[LABELS]
    # Negative labels are those of tokens that the loss ignores.
    counts = np.bincount(ids[ids >= 0], minlength=len(labels))
    for label, count in zip(labels, counts, strict=True):
        if not count:
            raise InputError(
                f"class_weights={BALANCED}: no training example has the label "
                f"{label!r}; give weights instead"
            )
    return tuple((counts.sum() / (len(labels) * counts)).tolist())
