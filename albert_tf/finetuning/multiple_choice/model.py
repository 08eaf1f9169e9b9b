"""Model of multiple choice."""

from __future__ import annotations

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.finetuning.head_model import HeadModel
from albert_tf.models.base import ENCODER_INPUTS, named_inputs


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertMultipleChoice(HeadModel):
    """Pooled output of each choice -> dropout -> one number a choice.

    Inputs are the encoder's dict, but each tensor is `[batch, choices, seq]`.
    The output is float32 logits `[batch, choices]` whatever the precision, to
    be compared by a softmax over the choices. The number of choices is the
    data's: no weight depends on it.

    Args:
      config: the architecture.
      dropout: of the pooled output.
      packed: see `AlbertEncoder`.
      rematerialize: see `AlbertEncoder`.
      **kwargs: `name`, `dtype` and `trainable` of `keras.Model`.

    Raises:
      InputError: a bad `dropout`.
    """

    HEAD = "choice_head"
    INPUT_RANK = 3

    def __init__(
        self,
        config: AlbertConfig,
        *,
        dropout: float = 0.1,
        packed: bool = False,
        rematerialize: bool = False,
        **kwargs,
    ):
        super().__init__(
            config,
            num_outputs=1,
            dropout=dropout,
            packed=packed,
            rematerialize=rematerialize,
            name=kwargs.pop("name", "multiple_choice"),
            **kwargs,
        )

    def call(self, inputs, training=False):
        """Maps the input dict to logits `[batch, choices]`."""
        inputs = named_inputs(inputs, ENCODER_INPUTS)
        batch, choices, length = _shape_of_choices(inputs["input_word_ids"])
        pooled = self.encoder.pooled_output(
            {
                name: ops.reshape(values, (batch * choices, length))
                for name, values in inputs.items()
            },
            training=training,
        )
        logits = self.choice_head(self.dropout(pooled, training=training))
        return ops.reshape(logits, (batch, choices))


def _shape_of_choices(word_ids):
    shape = ops.shape(word_ids)
    if len(shape) != 3:
        raise ValueError(
            f"input_word_ids has {len(shape)} dimensions, but multiple choice "
            "takes [batch, choices, seq]"
        )
    return shape
