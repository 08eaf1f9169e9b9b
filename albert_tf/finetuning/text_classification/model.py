"""Model of text classification and regression, and the regression loss."""

from __future__ import annotations

import keras
import tensorflow as tf

from albert_tf.finetuning.head_model import LabelHeadModel
from albert_tf.finetuning.losses import MeanLoss
from albert_tf.models.outputs import with_attentions


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertClassifier(LabelHeadModel):
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
      output_attentions: see `HeadModel`.
      **kwargs: `name`, `dtype` and `trainable` of `keras.Model`.

    Raises:
      InputError: a bad `num_labels`, `dropout` or `labels`.
    """

    HEAD = "classifier_head"
    NAME = "classifier"
    POOLER = True

    def call(self, inputs, training=False):
        """Maps the input dict to logits `[batch, num_labels]`."""
        pooled, attentions = self.pooled(inputs, training)
        logits = self.classifier_head(self.dropout(pooled, training=training))
        return with_attentions(logits, attentions)


class RegressionLoss(MeanLoss):
    """Squared error of float32 labels `[batch]`; outputs are `[batch, 1]`."""

    def losses(self, labels, outputs):
        """Returns squared and absolute errors; see the base class."""
        errors = outputs[:, 0] - labels
        return tf.square(errors), {"absolute_error": tf.abs(errors)}
