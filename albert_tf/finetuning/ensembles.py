"""Averages of the predictions of several models."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from albert_tf.errors import InputError

# Probabilities in bfloat16 add up to 1 within this.
_SUM_TOLERANCE = 0.01


def average_probabilities(members: Mapping[str, ArrayLike]) -> np.ndarray:
    """Returns the mean of probabilities of classes, or of options.

    The paper's ensembles average what their models predict, too.

    Args:
      members: model -> probabilities `[..., classes]`, which add up to 1.

    Returns:
      float64 `[..., classes]`.

    Raises:
      InputError: there is no model; two models have different shapes; or these
        are no probabilities.
    """
    arrays = _arrays(members)
    for name, array in arrays.items():
        if not array.size:
            continue
        sums = array.sum(axis=-1)
        if (array < 0).any() or not (abs(sums - 1) <= _SUM_TOLERANCE).all():
            raise InputError(
                f"model {name}: its predictions are no probabilities, which "
                "are not negative and add up to 1; apply softmax to logits"
            )
    return _mean(arrays)


def average_values(members: Mapping[str, ArrayLike]) -> np.ndarray:
    """Returns the mean of predicted numbers.

    Args:
      members: model -> numbers `[examples]`.

    Returns:
      float64 `[examples]`.

    Raises:
      InputError: there is no model, or two have different shapes.
    """
    return _mean(_arrays(members))


def _arrays(members: Mapping[str, ArrayLike]) -> dict[str, np.ndarray]:
    arrays = {name: np.asarray(x, np.float64) for name, x in members.items()}
    check_equal({name: x.shape for name, x in arrays.items()}, "shapes")
    return arrays


def check_equal(values: Mapping[str, object], what: str) -> None:
    """Checks that what models predict has the same shape or number.

    Raises:
      InputError: there is no model, or two have different values.
    """
    if not values:
        raise InputError("ensemble: no model named")
    (first, wanted), *others = values.items()
    for name, value in others:
        if value != wanted:
            raise InputError(
                f"ensemble: {what} of predictions differ: {wanted} of model "
                f"{first}, {value} of {name}; the models must be of one task, "
                "and predict the same examples"
            )


def _mean(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    return np.mean(list(arrays.values()), axis=0)
