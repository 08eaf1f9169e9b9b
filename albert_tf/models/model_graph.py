"""Models as TensorFlow functions over plain variables, for exports."""

from __future__ import annotations

from typing import TypeVar

import keras
import numpy as np
import tensorflow as tf

from albert_tf.backend import check_backend
from albert_tf.errors import InputError
from albert_tf.layers.dropout import dropout_seeds
from albert_tf.models.base import AlbertModel
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrained import merged_weights
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.models.public_names import named_weights

Model = TypeVar("Model", bound=keras.Model)

Tensors = dict[str, tf.Tensor]


def float32_copy(model: Model, packed: bool) -> Model:
    """Returns a trainable copy of a model in float32.

    It does not inherit the precision, frozen layers, rematerialization or
    distribution strategy of the original.

    Args:
      model: a model whose class has the argument `packed`.
      packed: see `AlbertEncoder`.
    """
    config = model.get_config()
    changes = {
        "packed": packed,
        "rematerialize": False,
        "trainable": True,
        "dtype": "float32",
    }
    if "output_attentions" in config:
        changes["output_attentions"] = False
    if scope := getattr(model, "SCOPE", None):
        changes["name"] = scope
    for name in ("frozen", "encoder_dtype"):
        config.pop(name, None)
    copy = model.__class__.from_config({**config, **changes})
    weights = merged_weights(model)
    for path, variable in named_weights(copy).items():
        variable.assign(weights[path])
    return copy


def draw_dropout_seed() -> tf.Tensor:
    """Returns an int32 dropout seed `[2]`, a new one in each call of a graph.

    A variable as in Keras's seed generator would repeat its values in every
    process that loads the export, and on every replica.
    """
    # A raw op, as `tf.random.uniform` would bake in the exporting program's
    # `tf.random.set_seed`.
    return tf.raw_ops.RandomUniformInt(
        shape=[2], minval=0, maxval=tf.int32.max, seed=0, seed2=0
    )


def check_encoder(model: AlbertModel) -> AlbertEncoder:
    """Returns the encoder of a model, to export it.

    Raises:
      InputError: if it has no pooler, or Keras's backend is not TensorFlow.
      TypeError: if `model` is neither a pretrainer nor an encoder.
    """
    # No subclasses, whose changes would be lost silently.
    if type(model) not in (AlbertPretrainer, AlbertEncoder):
        raise TypeError(
            "model must be an AlbertPretrainer or AlbertEncoder, not "
            f"{type(model).__name__}; another model's encoder is its .encoder"
        )
    check_backend("exporting a SavedModel")
    encoder = model.encoder if isinstance(model, AlbertPretrainer) else model
    if encoder.pooler is None:
        raise InputError(
            f"{model.name} was created with pooler=False, but an exported "
            "encoder has a pooled_output; export a model with a pooler"
        )
    return encoder


class ModelGraph:
    """A `tf.function` of a model in float32.

    It is traced from a copy of the model; see `float32_copy`.

    Attributes:
      config: the architecture.
      packed: see `AlbertEncoder`.
      variables: the copy's `tf.Variable`s, named by their public paths.

    Args:
      model: a model whose class has the argument `packed`.
      packed: see `AlbertEncoder`.

    Raises:
      InputError: if Keras's backend is not TensorFlow.
    """

    def __init__(self, model: AlbertModel, packed: bool):
        check_backend("exporting a SavedModel")
        self.config = model.config
        self.packed = packed
        self._copy = float32_copy(model, packed)
        self.variables = [weight.value for weight in self._copy.weights]
        self._function = tf.function(self._call, autograph=False)

    def __call__(self, inputs: Tensors, training: bool) -> tf.Tensor | Tensors:
        """Computes the model's outputs; in a graph, as a function call.

        Args:
          inputs: the model's inputs. Their length is not checked; it must not
            exceed the config's `max_position_embeddings`.
          training: whether to apply dropout, with new masks in each call.
        """
        return self._function(inputs, training)

    def weights(self) -> dict[str, np.ndarray]:
        """Returns the public path of each variable -> its value."""
        return {
            variable.name.removesuffix(":0"): variable.numpy()
            for variable in self.variables
        }

    def _call(self, inputs: Tensors, training: bool) -> tf.Tensor | Tensors:
        with dropout_seeds(draw_dropout_seed() if training else None):
            return self._copy(inputs, training=training)
