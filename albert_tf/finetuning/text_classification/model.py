"""Models and loss for text classification and regression."""

from __future__ import annotations

import keras
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.finetuning.fit_labels import name_of_loss
from albert_tf.finetuning.head_model import LabelHeadModel
from albert_tf.finetuning.losses import MeanLoss
from albert_tf.finetuning.task_config import TaskConfig
from albert_tf.finetuning.text_classification.examples import (
    TextTask,
    text_task_config,
)
from albert_tf.layers.pooling import mean_pooling, pair_features, segment_masks
from albert_tf.models.base import with_attentions
from albert_tf.models.inputs import named_inputs
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.packing import ENCODER_INPUTS

# Losses of labels that do not exclude each other, and of those that do.
_LOSSES_OF_EACH = ("binary_crossentropy", "binary_focal_crossentropy")
_LOSSES_OF_ONE = (
    "categorical_crossentropy",
    "categorical_focal_crossentropy",
    "sparse_categorical_crossentropy",
    "mean_squared_error",
)


class TextModel(LabelHeadModel):
    """A `LabelHeadModel` of texts, or pairs: a tuple `(first, second)`.

    Labels are integers or names of `labels`, or numbers; with the loss
    `BinaryCrossentropy`, 0 or 1 for each of `labels`, `[batch, num_labels]`:
    the labels do not exclude each other, which is saved with the model.
    """

    TASK_TYPES = ("text_classification", "regression")
    NUM_TEXTS = (1, 2)
    # Value of the task's setting `head`.
    TASK_HEAD: str

    def _default_settings(self):
        # As in `TextTaskType.optional_settings`.
        return {} if self.TASK_HEAD == "cls" else {"head": self.TASK_HEAD}

    def _training_arrays(self, x, y, sample_weight, batch_size, validation):
        loss = name_of_loss(self.loss)
        if loss in _LOSSES_OF_EACH:
            self.multi_label = True
        elif loss in _LOSSES_OF_ONE:
            self.multi_label = False
        return super()._training_arrays(
            x, y, sample_weight, batch_size, validation
        )

    def _task(self, num_texts: int) -> TaskConfig:
        """Returns the task of one or two texts to train for."""
        old = self.task_config
        pairs = num_texts == 2
        is_number = self.num_labels == 1 and not self.multi_label
        if (
            old is not None
            and pairs == (old.source.get("pair") is not None)
            and is_number == (old.labels is None)
        ):
            return old
        task = TextTask(
            name="text",
            labels=None if is_number else self.label_names,
            metrics=("pearson", "spearman") if is_number else ("accuracy",),
            text="text",
            pair="pair" if pairs else None,
            label="label",
        )
        self.labels = task.labels
        return text_task_config(task, settings=self._settings)

    def _check_texts(self, num_texts: int) -> Tokenizer:
        tokenizer = super()._check_texts(num_texts)
        if self.task_config is None:
            return tokenizer
        pairs = self.task_config.source.get("pair") is not None
        if pairs != (num_texts == 2):
            takes = "two texts: a tuple (first, second)"
            raise InputError(
                f"{type(self).__name__} takes "
                + (takes if pairs else "one text, not two")
                + ", because its task does"
            )
        return tokenizer

    def _targets(self, y):
        return self._label_ids(y)


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertClassifier(TextModel):
    """ALBERT with the original's classification head, as used for GLUE.

    The pooled output goes through dropout and a dense layer. Inputs are the
    encoder's dict; `fit`, `evaluate` and `predict` also take texts, see
    `TextModel`. The output is logits `[batch, num_labels]`, float32 in any
    precision. Train it with `compile`, with the loss
    `SparseCategoricalCrossentropy(from_logits=True)`; for labels that do not
    exclude each other, `BinaryCrossentropy(from_logits=True)`; or for
    regression with `num_labels=1`, "mse"; and `fit`:

        model.fit(["A good film.", "A bad one."], ["good", "bad"])

    Args:
      config: the architecture.
      num_labels: number of outputs; 1 for regression.
      dropout: dropout rate of the pooled output; 0.1 in all original models.
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

    HEAD = "classifier_head"
    TASK_HEAD = "cls"
    NAME = "classifier"

    def call(self, inputs, training=False):
        """Maps the input dict to logits `[batch, num_labels]`."""
        pooled, attentions = self.pooled(inputs, training)
        logits = self.classifier_head(self.dropout(pooled, training=training))
        return with_attentions(logits, attentions)


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertPairClassifier(TextModel):
    """ALBERT with a classification head on the features of two texts.

    Both texts are encoded in one row, so that they attend to each other. With u
    and v, the means of the last layer over the tokens of each, without special
    tokens, the features u, v, |u - v| and u * v go through dropout and a dense
    layer. A missing text is 0. The encoder has no pooler. Inputs, outputs and
    arguments are those of `AlbertClassifier`.
    """

    HEAD = "pair_head"
    NUM_TEXTS = (2,)
    TASK_HEAD = "pair_features"
    WIDTH = 4
    NAME = "pair_classifier"
    POOLER = False

    def call(self, inputs, training=False):
        """Maps the input dict to logits `[batch, num_labels]`."""
        inputs = named_inputs(inputs, ENCODER_INPUTS)
        outputs = self.encoder(inputs, training=training)
        u, v = (
            mean_pooling(outputs["sequence_output"], mask)
            for mask in segment_masks(
                inputs["input_mask"], inputs["input_type_ids"]
            )
        )
        features = self.dropout(pair_features(u, v), training=training)
        return with_attentions(
            self.pair_head(features), outputs.get("attentions")
        )


class RegressionLoss(MeanLoss):
    """Mean squared error of float32 labels `[batch]`, outputs `[batch, 1]`."""

    def losses(self, labels, outputs):
        """Returns squared and absolute errors."""
        errors = outputs[:, 0] - labels
        return tf.square(errors), {"absolute_error": tf.abs(errors)}
