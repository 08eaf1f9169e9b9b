"""One label, or one number, for a text or a pair of texts."""

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
class AlbertClassifier(AlbertModel):
    """Pooled output -> dropout -> dense: GLUE's tasks in the original.

    Inputs are the encoder's dict. The output is float32 logits
    `[batch, num_labels]` whatever the precision, so that training is
    `compile(loss=SparseCategoricalCrossentropy(from_logits=True))` and `fit`;
    with `num_labels=1` it is a number, and the loss "mse".

    Args:
      config: the architecture.
      num_labels: size of the output; 1 is regression.
      dropout: of the pooled output; the original's is 0.1 in every model.
      labels: names of the labels in the order of the logits, kept with the
        model.
      packed: see `AlbertEncoder`.
      rematerialize: see `AlbertEncoder`.
      **kwargs: `name`, `dtype` and `trainable` of `keras.Model`.

    Raises:
      InputError: a bad `num_labels`, `dropout` or `labels`.
    """

    HEAD = "classifier_head"
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
        labels = check_labels("AlbertClassifier", num_labels, labels)
        dropout = check_dropout("AlbertClassifier", dropout)
        super().__init__(config, **{"name": "classifier", **kwargs})
        self.num_labels = num_labels
        self.head_dropout = dropout
        self.labels = labels
        self.encoder = AlbertEncoder(
            config,
            packed,
            rematerialize=rematerialize,
            dtype=self.dtype_policy,
        )
        self.dropout = Dropout(dropout, dtype=self.dtype_policy)
        self.classifier_head = dense(
            config, num_labels, "classifier_head", "float32"
        )
        self.classifier_head.build((None, config.hidden_size))
        self.built = True

    def call(self, inputs, training=False):
        """Maps the input dict to logits `[batch, num_labels]`."""
        pooled = self.encoder.pooled_output(inputs, training=training)
        return self.classifier_head(self.dropout(pooled, training=training))

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
