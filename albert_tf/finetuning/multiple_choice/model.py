"""Model of multiple choice."""

from __future__ import annotations

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.finetuning.head_model import HeadModel
from albert_tf.models.base import (
    ENCODER_INPUTS,
    named_inputs,
)
from albert_tf.models.outputs import with_attentions


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
      output_attentions: see `HeadModel`; attentions are
        `[batch, choices, heads, from, to]`.
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
        output_attentions: bool = False,
        **kwargs,
    ):
        super().__init__(
            config,
            num_outputs=1,
            dropout=dropout,
            packed=packed,
            rematerialize=rematerialize,
            output_attentions=output_attentions,
            name=kwargs.pop("name", "multiple_choice"),
            **kwargs,
        )

    def call(self, inputs, training=False):
        """Maps the input dict to logits `[batch, choices]`."""
        inputs = named_inputs(inputs, ENCODER_INPUTS)
        batch, choices, length = _shape_of_choices(inputs["input_word_ids"])
        pooled, attentions = self.pooled(
            {
                name: ops.reshape(values, (batch * choices, length))
                for name, values in inputs.items()
            },
            training,
        )
        logits = self.choice_head(self.dropout(pooled, training=training))
        logits = ops.reshape(logits, (batch, choices))
        if attentions is not None:
            heads = self.config.num_attention_heads
            shape = (batch, choices, heads, length, length)
            attentions = [ops.reshape(x, shape) for x in attentions]
        return with_attentions(logits, attentions)


def _shape_of_choices(word_ids):
    shape = ops.shape(word_ids)
    if len(shape) != 3:
        raise ValueError(
            f"input_word_ids has {len(shape)} dimensions, but multiple choice "
            "takes [batch, choices, seq]"
        )
    return shape
