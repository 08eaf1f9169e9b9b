"""Labels as arguments of `fit` and `evaluate`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError

_SPARSE = "sparse_categorical_crossentropy"


def name_of_loss(loss: Any) -> str:
    """Returns the name of the function of a loss that `compile` takes."""
    if isinstance(loss, (str, type)):
        loss = keras.losses.get(loss)
    return getattr(getattr(loss, "fn", loss), "__name__", "")


def check_class_ids(y: Any, num_classes: int, loss: Any) -> None:
    """Checks the ids of classes, where the loss takes ids.

    JAX computes a loss of 0 for others, and TensorFlow's error does not say
    which label it is. Values that are not arrays are not checked.

    Raises:
      InputError: if an id is not an integer in [0, `num_classes`), nor the one
        that the loss ignores.
    """
    if name_of_loss(loss) != _SPARSE:
        return
    if not isinstance(y, (np.ndarray, list, tuple, tf.Tensor)):
        return
    if tf.is_symbolic_tensor(y):
        return
    ids = np.asarray(y)
    if ids.dtype.kind not in "iuf" or not ids.size:
        return
    known = (ids >= 0) & (ids < num_classes) & (ids == np.floor(ids))
    ignored = getattr(loss, "ignore_class", None)
    if ignored is not None:
        known |= ids == ignored
    if not known.all():
        index = np.unravel_index(np.argmin(known), ids.shape)
        place = ", ".join(map(str, index))
        raise InputError(
            f"label {ids[index]:g}, at index {place}, must be an integer in "
            f"[0, {num_classes})"
        )


def with_label_ids(
    data: tf.data.Dataset, ids_of: Callable[[tf.Tensor], tf.Tensor]
) -> tf.data.Dataset:
    """Returns a dataset of inputs with ids for the names of labels."""
    spec = data.element_spec
    if not isinstance(spec, tuple) or len(spec) < 2:
        return data
    if getattr(spec[1], "dtype", None) != tf.string:
        return data
    if not spec[1].shape.rank:
        raise InputError(
            "a dataset with names of labels must be batched; use Dataset.batch"
        )
    return data.map(lambda x, y, *weights: (x, ids_of(y), *weights))
