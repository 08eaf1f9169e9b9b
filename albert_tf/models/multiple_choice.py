"""Which of several texts is right: RACE's questions."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.layers.dense import dense
from albert_tf.layers.dropout import Dropout
from albert_tf.models.arguments import check_dropout
from albert_tf.models.base import AlbertModel
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.inputs import ENCODER_INPUTS, check_inputs


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertMultipleChoice(AlbertModel):
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

    def __init__(
        self,
        config: AlbertConfig,
        *,
        dropout: float = 0.1,
        packed: bool = False,
        rematerialize: bool = False,
        **kwargs,
    ):
        dropout = check_dropout("AlbertMultipleChoice", dropout)
        super().__init__(config, **{"name": "multiple_choice", **kwargs})
        self.head_dropout = dropout
        self.encoder = AlbertEncoder(
            config,
            packed,
            rematerialize=rematerialize,
            dtype=self.dtype_policy,
        )
        self.dropout = Dropout(dropout, dtype=self.dtype_policy)
        self.choice_head = dense(config, 1, "choice_head", "float32")
        self.choice_head.build((None, config.hidden_size))
        self.built = True

    def call(self, inputs, training=False):
        """Maps the input dict to logits `[batch, choices]`."""
        check_inputs(inputs, ENCODER_INPUTS)
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

    @classmethod
    def _arguments_of(cls, checkpoint, new_head, given):
        if new_head or cls.HEAD not in checkpoint.parts:
            return {}
        return {"dropout": checkpoint.head.dropout}

    def get_config(self) -> dict[str, Any]:
        """Returns what `from_config` needs."""
        return {
            **super().get_config(),
            "dropout": self.dropout.rate,
            "packed": self.encoder.packed,
            "rematerialize": self.encoder.rematerialize,
        }


def _shape_of_choices(word_ids):
    shape = ops.shape(word_ids)
    if len(shape) != 3:
        raise ValueError(
            f"input_word_ids has {len(shape)} dimensions, but multiple choice "
            "takes [batch, choices, seq]"
        )
    return shape
