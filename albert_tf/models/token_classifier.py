"""One label for every token: named entities, parts of speech."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from albert_tf.config import AlbertConfig
from albert_tf.layers.dense import dense
from albert_tf.layers.dropout import Dropout
from albert_tf.models.arguments import (
    check_dropout,
    check_labels,
    label_arguments,
)
from albert_tf.models.base import AlbertModel
from albert_tf.models.encoder import AlbertEncoder


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertTokenClassifier(AlbertModel):
    """Sequence output -> dropout -> dense. The original has no such model.

    Inputs are the encoder's dict. The output is float32 logits
    `[batch, seq, num_labels]` whatever the precision; on padding they mean
    nothing, so `fit` needs sample weights `[batch, seq]` that are 0 there.

    Args:
      config: the architecture.
      num_labels: size of the output at each token.
      dropout: of the sequence output.
      labels: names of the labels in the order of the logits, kept with the
        model.
      packed: see `AlbertEncoder`.
      rematerialize: see `AlbertEncoder`.
      **kwargs: `name`, `dtype` and `trainable` of `keras.Model`.

    Raises:
      InputError: a bad `num_labels`, `dropout` or `labels`.
    """

    HEAD = "token_head"
    HEAD_ARGUMENTS = ("num_labels",)

    def __init__(
        self,
        config: AlbertConfig,
        num_labels: int,
        *,
        dropout: float = 0.1,
        labels: Sequence[str] | None = None,
        packed: bool = False,
        rematerialize: bool = False,
        **kwargs,
    ):
        labels = check_labels("AlbertTokenClassifier", num_labels, labels)
        dropout = check_dropout("AlbertTokenClassifier", dropout)
        super().__init__(config, **{"name": "token_classifier", **kwargs})
        self.num_labels = num_labels
        self.head_dropout = dropout
        self.labels = labels
        self.encoder = AlbertEncoder(
            config,
            packed,
            pooler=False,
            rematerialize=rematerialize,
            dtype=self.dtype_policy,
        )
        self.dropout = Dropout(dropout, dtype=self.dtype_policy)
        self.token_head = dense(config, num_labels, "token_head", "float32")
        self.token_head.build((None, config.hidden_size))
        self.built = True

    def call(self, inputs, training=False):
        """Maps the input dict to logits `[batch, seq, num_labels]`."""
        outputs = self.encoder(inputs, training=training)
        states = self.dropout(outputs["sequence_output"], training=training)
        return self.token_head(states)

    @classmethod
    def _arguments_of(cls, checkpoint, new_head, given):
        return label_arguments(cls, checkpoint, new_head, given)

    def get_config(self) -> dict[str, Any]:
        """Returns what `from_config` needs."""
        return {
            **super().get_config(),
            "num_labels": self.num_labels,
            "dropout": self.dropout.rate,
            "labels": self.labels and list(self.labels),
            "packed": self.encoder.packed,
            "rematerialize": self.encoder.rematerialize,
        }
