"""A task model as a TensorFlow function over plain variables."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from albert_tf.export.endpoint import Tensors
from albert_tf.export.float32_copy import draw_dropout_seed, float32_copy
from albert_tf.export.requirements import check_backend
from albert_tf.layers.dropout import dropout_seeds
from albert_tf.models.base import AlbertModel


class ModelGraph:
    """A `tf.function` that computes what a model computes, in float32.

    It traces a copy of the model, see `float32_copy`.

    Attributes:
      config: the architecture.
      packed: whether padding is removed inside.
      variables: `tf.Variable`s of the copy, named by their public path.

    Args:
      model: gives the weights; any model whose class takes `packed`.
      packed: whether padding is removed inside; see `AlbertEncoder`.

    Raises:
      InputError: Keras computes with another backend.
    """

    def __init__(self, model: AlbertModel, packed: bool):
        check_backend()
        self.config = model.config
        self.packed = packed
        self._copy = float32_copy(model, packed)
        self.variables = [weight.value for weight in self._copy.weights]
        self._function = tf.function(self._call, autograph=False)

    def __call__(self, inputs: Tensors, training: bool) -> tf.Tensor | Tensors:
        """Returns the outputs of the model; called, not inlined, in a graph.

        Args:
          inputs: what the model takes. Rows longer than the config's
            `max_position_embeddings` are the caller's error.
          training: whether dropout is on, with new masks in every call.
        """
        return self._function(inputs, training)

    def weights(self) -> dict[str, np.ndarray]:
        """Returns public path -> value."""
        return {
            variable.name.removesuffix(":0"): variable.numpy()
            for variable in self.variables
        }

    def _call(self, inputs: Tensors, training: bool) -> tf.Tensor | Tensors:
        with dropout_seeds(draw_dropout_seed() if training else None):
            return self._copy(inputs, training=training)
