"""Model for multiple choice."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from albert_tf.finetuning.fit_labels import check_class_ids
from albert_tf.finetuning.head_model import HeadModel
from albert_tf.finetuning.multiple_choice.examples import RACE
from albert_tf.finetuning.multiple_choice.features import choice_sequences
from albert_tf.models.base import with_attentions
from albert_tf.models.inputs import named_inputs
from albert_tf.text.packing import ENCODER_INPUTS


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertMultipleChoice(HeadModel):
    """ALBERT with a multiple-choice head: one logit for each choice.

    The pooled output of each choice goes through dropout and a dense layer.
    Inputs are the encoder's dict, each with the shape `[batch, choices, seq]`;
    `fit`, `evaluate` and `predict` also take strings, see `TaskModel`: a tuple
    of contexts, questions and options `[examples, choices]`.
    The output is logits `[batch, choices]`, float32 in any precision, to be
    normalized by a softmax over the choices. No weight depends on the number of
    choices.

    Args:
      config: the architecture.
      dropout: dropout rate of the pooled output.
      packed: see `AlbertEncoder`.
      rematerialize: see `AlbertEncoder`.
      output_attentions: see `AlbertEncoder`. The output is then a dict of
        `logits` and `attentions`, `[batch, choices, heads, from, to]`.
      **kwargs: `name`, `dtype` and `trainable` of `keras.Model`.

    Raises:
      InputError: if `dropout` is not valid.
    """

    HEAD = "choice_head"
    NAME = "multiple_choice"
    INPUT_RANK = 3
    TASK_TYPES = ("multiple_choice",)
    TASK = RACE
    NUM_TEXTS = (3,)
    LAST_RANK = 2
    LENGTHS = ("max_qa_length",)

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

    def _default_settings(self):
        longest = self.max_seq_length // 4
        settings = super()._default_settings()
        return {
            **settings,
            "max_qa_length": min(settings["max_qa_length"], longest),
        }

    def _sequences(self, preprocessor, texts, y, sample_weight, multiple=1):
        contexts, questions, options = texts
        options = tf.convert_to_tensor(options)
        if tf.executing_eagerly() and y is not None:
            check_class_ids(y, options.shape[1], self.loss)
        shape = tf.shape(options)
        rows = tf.repeat(tf.range(shape[0]), shape[1])
        sequences = choice_sequences(
            preprocessor,
            contexts,
            tf.convert_to_tensor(questions),
            tf.reshape(options, [-1]),
            example=rows.numpy() if tf.executing_eagerly() else rows,
            max_seq_length=self.max_seq_length,
            max_qa_length=self._settings["max_qa_length"],
            multiple=multiple,
        )
        if tf.executing_eagerly():
            shape = shape.numpy()
            form = [*shape, -1]
            sequences = {n: np.reshape(x, form) for n, x in sequences.items()}
        else:
            form = [shape[0], options.shape[1] or shape[1], -1]
            sequences = {n: tf.reshape(x, form) for n, x in sequences.items()}
        return sequences, self._targets(y), sample_weight


def _shape_of_choices(word_ids):
    shape = ops.shape(word_ids)
    if len(shape) != 3:
        raise ValueError(
            f"input_word_ids has {len(shape)} dimensions, but must have the "
            "shape [batch, choices, seq]"
        )
    return shape
