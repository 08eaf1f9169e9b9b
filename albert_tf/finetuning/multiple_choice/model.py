"""Model and exported graph of multiple choice."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.finetuning.head_model import HeadModel
from albert_tf.finetuning.serving import TEXTS, ServingGraph, strip
from albert_tf.models.base import ENCODER_INPUTS, named_inputs, with_attentions
from albert_tf.models.model_graph import ModelGraph, Tensors
from albert_tf.text.preprocessor import GraphPreprocessor

# See `choice_features`.
_BLANKS = "[\ufe33\ufe34\ufe4d\ufe4e\ufe4f\uff3f]"


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
      output_attentions: see `AlbertEncoder`. The output is then a dict of
        `logits` and `attentions`, `[batch, choices, heads, from, to]`.
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


def multiple_choice_graph(
    task_type: Any, model: AlbertMultipleChoice, packed: bool
) -> ServingGraph:
    """Returns the exported graph of a task of options.

    Inputs: `context` and `question` `[batch]`, `options` `[batch, choices]`,
    where questions of one batch have equally many. Outputs: `logits` and
    `probabilities` float32 `[batch, choices]`, and `choice`, the place of the
    most likely option, from 0, int32 `[batch]`. Sequences are those of
    `choice_features`.

    Args:
      task_type: the `MultipleChoice`, with its tokenizer.
      model: the fine-tuned model.
      packed: see `AlbertEncoder`.

    Raises:
      InputError: `max_seq_length` is beyond the model's.
    """
    length = task_type.max_seq_length
    preprocessor = GraphPreprocessor(task_type.tokenizer, length)
    graph = ModelGraph(model, packed)

    def call(inputs: Tensors, training: bool) -> Tensors:
        shape = tf.shape(inputs["options"])  # [batch, choices]
        # Row r of batch * choices is of this example.
        example = tf.repeat(tf.range(shape[0]), shape[1])
        texts = _questions_with_options(
            tf.gather(inputs["question"], example),
            tf.reshape(inputs["options"], [shape[0] * shape[1]]),
        )
        second = preprocessor.tokenize(texts)[:, -task_type.max_qa_length :]
        # A passage is tokenized once for all options.
        context = preprocessor.tokenize(inputs["context"])
        room = length - 3 - second.row_lengths()
        first = _beginnings(tf.gather(context, example), room)
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
    """Puts options into the blanks of questions, or behind them."""
    questions, options = strip(questions), strip(options)
    parts = tf.strings.split(
        tf.strings.regex_replace(questions, _BLANKS, "_"), "_"
    )
    option = tf.gather(options, parts.value_rowids())
    is_first = tf.ragged.range(parts.row_lengths()).values == 0
    filled = parts.with_values(
        tf.where(is_first, parts.values, option + parts.values)
    )
    return tf.where(
        parts.row_lengths() > 1,
        tf.strings.reduce_join(filled, axis=1),
        questions + " " + options,
    )


def _beginnings(tokens: tf.RaggedTensor, lengths: tf.Tensor) -> tf.RaggedTensor:
    """Cuts each sequence `[batch, (tokens)]` to its own length `[batch]`."""
    position = tf.ragged.range(tokens.row_lengths())
    limit = tf.gather(lengths, tokens.value_rowids())
    return tf.ragged.boolean_mask(
        tokens, position.with_values(position.values < limit)
    )
