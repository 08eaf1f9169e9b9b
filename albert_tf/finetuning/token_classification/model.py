"""Model and loss of token classification."""

from __future__ import annotations

import keras
import tensorflow as tf

from albert_tf.finetuning.head_model import LabelHeadModel
from albert_tf.finetuning.losses import CrossEntropyLoss
from albert_tf.models.outputs import with_attentions


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertTokenClassifier(LabelHeadModel):
    """Sequence output -> dropout -> dense. The original has no such model.

    Inputs are the encoder's dict. The output is float32 logits
    `[batch, seq, num_labels]` whatever the precision; on padding they are
    meaningless, so `fit` needs sample weights `[batch, seq]` that are 0 there.

    Args:
      config: the architecture.
      num_labels: size of the output at each token.
      dropout: of the sequence output.
      labels: names of the labels in the order of the logits, kept with the
        model.
      packed: see `AlbertEncoder`.
      rematerialize: see `AlbertEncoder`.
      output_attentions: see `HeadModel`.
      **kwargs: `name`, `dtype` and `trainable` of `keras.Model`.

    Raises:
      InputError: a bad `num_labels`, `dropout` or `labels`.
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
    """Cross-entropy of tokens with labels, int32 `[batch, seq]`; -1 is none."""

    def weights(self, labels):
        """Returns 1 where a token has a label."""
        return tf.cast(labels >= 0, tf.float32)

    def losses(self, labels, outputs):
        """Returns cross-entropies and hits; see the base class."""
        return super().losses(tf.maximum(labels, 0), outputs)
