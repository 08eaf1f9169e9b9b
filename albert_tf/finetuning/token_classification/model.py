"""Model and loss for token classification."""

from __future__ import annotations

import keras
import tensorflow as tf

from albert_tf.finetuning.head_model import LabelHeadModel
from albert_tf.finetuning.losses import CrossEntropyLoss
from albert_tf.models.base import with_attentions


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertTokenClassifier(LabelHeadModel):
    """ALBERT with a token classification head, which the original lacks.

    The sequence output goes through dropout and a dense layer. Inputs are the
    encoder's dict. The output is logits `[batch, seq, num_labels]`, float32 in
    any precision. Those of padding are meaningless, so `fit` needs sample
    weights `[batch, seq]` that are 0 there.

    Args:
      config: the architecture.
      num_labels: number of outputs per token.
      dropout: dropout rate of the sequence output.
      labels: names of the labels in the order of the logits, saved with the
        model.
      packed: see `AlbertEncoder`.
      rematerialize: see `AlbertEncoder`.
      output_attentions: see `AlbertEncoder`. The output is then a dict of
        `logits` and `attentions`.
      **kwargs: `name`, `dtype` and `trainable` of `keras.Model`.

    Raises:
      InputError: if `num_labels`, `dropout` or `labels` is not valid.
    """

    HEAD = "token_head"
    NAME = "token_classifier"
    POOLER = False

    def call(self, inputs, training=False):
        """Maps the input dict to logits `[batch, seq, num_labels]`."""
        outputs = self.encoder(inputs, training=training)
        states = self.dropout(outputs["sequence_output"], training=training)
        logits = self.token_head(states)
        return with_attentions(logits, outputs.get("attentions"))


class TokenClassificationLoss(CrossEntropyLoss):
    """Cross-entropy of token labels, int32 `[batch, seq]`; -1 is ignored."""

    def weights(self, labels):
        """Returns 1 where a token has a label."""
        return tf.cast(labels >= 0, tf.float32)

    def losses(self, labels, outputs):
        """Returns cross-entropies, and 1 where the prediction is right."""
        return super().losses(tf.maximum(labels, 0), outputs)
