"""Model and serving graph for multiple choice."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.finetuning.head_model import HeadModel
from albert_tf.finetuning.serving import TEXTS, ServingGraph, strip
from albert_tf.models.base import with_attentions
from albert_tf.models.inputs import ENCODER_INPUTS, named_inputs
from albert_tf.models.model_graph import ModelGraph, Tensors
from albert_tf.text.preprocessor import GraphPreprocessor

# See `choice_features`.
_BLANKS = "[\ufe33\ufe34\ufe4d\ufe4e\ufe4f\uff3f]"


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertMultipleChoice(HeadModel):
    """ALBERT with a multiple-choice head: one logit for each choice.

    The pooled output of each choice goes through dropout and a dense layer.
    Inputs are the encoder's dict, each with the shape `[batch, choices, seq]`.
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
            f"input_word_ids has {len(shape)} dimensions, but must have the "
            "shape [batch, choices, seq]"
        )
    return shape


def multiple_choice_graph(
    task_type: Any, model: AlbertMultipleChoice, packed: bool
) -> ServingGraph:
    """Returns the serving graph of a multiple-choice task.

    Inputs are the strings `context` and `question` `[batch]`, and `options`
    `[batch, choices]`. Outputs are `logits` and `probabilities`, float32
    `[batch, choices]`, and `choice`, the index of the most likely option, int32
    `[batch]`. Sequences equal those of `choice_features`.

    Args:
      task_type: the `MultipleChoice`, with its tokenizer.
      model: the fine-tuned model.
      packed: see `AlbertEncoder`.

    Raises:
      InputError: if `max_seq_length` exceeds the model's maximum.
    """
    length = task_type.max_seq_length
    preprocessor = GraphPreprocessor(task_type.tokenizer, length)
    graph = ModelGraph(model, packed)

    def call(inputs: Tensors, training: bool) -> Tensors:
        shape = tf.shape(inputs["options"])  # [batch, choices]
        # The example of each row `[batch * choices]`.
        example = tf.repeat(tf.range(shape[0]), shape[1])
        texts = _questions_with_options(
            tf.gather(inputs["question"], example),
            tf.reshape(inputs["options"], [shape[0] * shape[1]]),
        )
        second = preprocessor.tokenize(texts)[:, -task_type.max_qa_length :]
        # Each passage is tokenized once for all options.
        context = preprocessor.tokenize(inputs["context"])
        room = length - 3 - second.row_lengths()
        first = _truncate(tf.gather(context, example), room)
        sequences = preprocessor.pack_to_longest([first, second], length)
        sequences_shape = tf.concat(
            [shape, tf.shape(sequences["input_mask"])[1:]], 0
        )
        logits = graph(
            {n: tf.reshape(x, sequences_shape) for n, x in sequences.items()},
            training,
        )
        return {
            "logits": logits,
            "probabilities": tf.nn.softmax(logits),
            "choice": tf.argmax(logits, axis=-1, output_type=tf.int32),
        }

    return ServingGraph(
        model=graph,
        preprocessor=preprocessor,
        inputs={
            "context": TEXTS,
            "question": TEXTS,
            "options": tf.TensorSpec([None, None], tf.string),
        },
        call=call,
        max_seq_length=length,
    )


def _questions_with_options(
    questions: tf.Tensor, options: tf.Tensor
) -> tf.Tensor:
    """Fills options into the blanks of questions, or appends them."""
    questions, options = strip(questions), strip(options)
    segments = tf.strings.split(
        tf.strings.regex_replace(questions, _BLANKS, "_"), "_"
    )
    option = tf.gather(options, segments.value_rowids())
    is_first = tf.ragged.range(segments.row_lengths()).values == 0
    filled = segments.with_values(
        tf.where(is_first, segments.values, option + segments.values)
    )
    return tf.where(
        segments.row_lengths() > 1,
        tf.strings.reduce_join(filled, axis=1),
        questions + " " + options,
    )


def _truncate(tokens: tf.RaggedTensor, lengths: tf.Tensor) -> tf.RaggedTensor:
    """Cuts sequences `[batch, (tokens)]` to lengths `[batch]`."""
    position = tf.ragged.range(tokens.row_lengths())
    limit = tf.gather(lengths, tokens.value_rowids())
    return tf.ragged.boolean_mask(
        tokens, position.with_values(position.values < limit)
    )
