"""The encoder and its heads as TensorFlow functions over plain variables."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from albert_tf.export.endpoint import Tensors
from albert_tf.export.float32_copy import draw_dropout_seed, float32_copy
from albert_tf.layers.dropout import dropout_seeds
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.inputs import ENCODER_INPUTS, MASKED_LM_POSITIONS
from albert_tf.models.pretrainer import AlbertPretrainer


class EncoderGraph:
    """`tf.function`s that compute what a model computes, in float32.

    They trace a copy of the model, see `float32_copy`.

    Attributes:
      variables: `tf.Variable`s of the encoder, named by their public path.
      head_variables: "mlm" and "sop" -> the variables of that head, for the
        heads that the model has.

    Args:
      model: gives the weights.
      packed: whether padding is removed inside; see `AlbertEncoder`.
    """

    def __init__(self, model: AlbertEncoder | AlbertPretrainer, packed: bool):
        self.config = model.config
        copy = float32_copy(model, packed)
        self.head_variables = {}
        if isinstance(copy, AlbertPretrainer):
            self._encoder = copy.encoder
            self._mlm_head, self._sop_head = copy.mlm_head, copy.sop_head
            self.head_variables["mlm"] = _variables(self._mlm_head)
            if self._sop_head is not None:
                self.head_variables["sop"] = _variables(self._sop_head)
        else:
            self._encoder = copy
        self.variables = _variables(self._encoder)
        self.encode = tf.function(self._encode, autograph=False)
        self.mlm = tf.function(self._mlm, autograph=False)
        self.sop = tf.function(self._sop, autograph=False)

    def weights(self) -> dict[str, np.ndarray]:
        """Returns public path -> value, for the encoder and its heads."""
        heads = self.head_variables.values()
        return {
            variable.name.removesuffix(":0"): variable.numpy()
            for variables in (self.variables, *heads)
            for variable in variables
        }

    def _encode(self, inputs: Tensors, training: bool) -> Tensors:
        """The encoder's inputs -> what the contract asks of the root."""
        inputs = self._with_length_check(inputs)
        with dropout_seeds(draw_dropout_seed() if training else None):
            outputs = self._encoder(inputs, training=training)
        return {**outputs, "default": outputs["pooled_output"]}

    def _mlm(self, inputs: Tensors, training: bool) -> Tensors:
        """... and `masked_lm_positions` -> ... and `mlm_logits`."""
        # Not the pretrainer's shortcut through the last block: the contract
        # also asks for the whole sequence.
        outputs = self._encode_for_head(inputs, training)
        positions = inputs[MASKED_LM_POSITIONS]
        states = tf.gather(outputs["sequence_output"], positions, batch_dims=1)
        logits = self._mlm_head(
            tf.reshape(states, [-1, self.config.hidden_size]),
            self._encoder.word_embeddings,
        )
        shape = tf.concat([tf.shape(positions), [self.config.vocab_size]], 0)
        return {**outputs, "mlm_logits": tf.reshape(logits, shape)}

    def _sop(self, inputs: Tensors, training: bool) -> Tensors:
        """... -> ... and `sop_logits` `[batch, 2]`, class 1 is swapped."""
        outputs = self._encode_for_head(inputs, training)
        logits = self._sop_head(outputs["pooled_output"])
        return {**outputs, "sop_logits": logits}

    def _encode_for_head(self, inputs: Tensors, training: bool) -> Tensors:
        inputs = {name: inputs[name] for name in ENCODER_INPUTS}
        outputs = self.encode(inputs, training)
        del outputs["default"]  # A sub-object has its own main output.
        return outputs

    def _with_length_check(self, inputs: Tensors) -> Tensors:
        """Makes inputs that are too long fail with an understandable message.

        Where the length is unknown when a graph is built, the assertion fails.
        Where it is known (eager calls, Keras models, XLA, which drops
        assertions) an operation fails whose name is the message.
        """
        longest = self.config.max_position_embeddings
        word_ids = inputs["input_word_ids"]
        length = tf.shape(word_ids)[1]
        check = tf.debugging.assert_less_equal(
            length,
            longest,
            "input_word_ids is longer than this encoder's "
            f"max_position_embeddings={longest}; shorten the inputs, for "
            "example by the preprocessor's seq_length",
        )
        with tf.control_dependencies([check]):
            word_ids = tf.add(
                word_ids,
                tf.zeros([longest], tf.int32)[:length],
                f"input_word_ids_is_longer_than_max_position_embeddings_{longest}",
            )
        return {**inputs, "input_word_ids": word_ids}


def _variables(layer) -> list[tf.Variable]:
    return [weight.value for weight in layer.weights]
