"""A copy of a model to be traced, and the seeds of its dropout."""

from __future__ import annotations

from typing import TypeVar

import tensorflow as tf
from keras import ops

from albert_tf.models.base import AlbertModel

Model = TypeVar("Model", bound=AlbertModel)


def float32_copy(model: Model, packed: bool) -> Model:
    """Returns a copy with the same weights, in float32 and trainable.

    It has neither the precision, the frozen layers, the rematerialization nor
    the distribution strategy that the original was trained with.

    Args:
      model: gives the weights; any model whose class takes `packed`.
      packed: whether padding is removed inside; see `AlbertEncoder`.
    """
    copy = type(model).from_config(
        {
            **model.get_config(),
            "packed": packed,
            "rematerialize": False,
            "trainable": True,
            "dtype": "float32",
        }
    )
    for ours, theirs in zip(copy.weights, model.weights, strict=True):
        ours.assign(ops.cast(theirs, "float32"))
    return copy


def draw_dropout_seed() -> tf.Tensor:
    """Returns a new dropout seed, int32 `[2]`, in every call of a graph.

    A generator's variable, as Keras has it, would repeat itself in every
    process that loads the export, and on every replica.
    """
    # The raw operation, since the seeds of `tf.random.uniform` would come from
    # the exporting program's `tf.random.set_seed`.
    return tf.raw_ops.RandomUniformInt(
        shape=[2], minval=0, maxval=tf.int32.max, seed=0, seed2=0
    )
