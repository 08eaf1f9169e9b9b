"""Serving graph of multiple choice."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.finetuning.multiple_choice.model import AlbertMultipleChoice
from albert_tf.finetuning.serving import (
    TEXTS,
    ServingGraph,
    strip,
)
from albert_tf.models.model_graph import ModelGraph, Tensors
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.preprocessor import GraphPreprocessor

# See `choice_features`.
_BLANKS = "[\ufe33\ufe34\ufe4d\ufe4e\ufe4f\uff3f]"


def multiple_choice_graph(
    model: AlbertMultipleChoice,
    tokenizer: Tokenizer,
    *,
    max_seq_length: int,
    max_qa_length: int,
    packed: bool = True,
) -> ServingGraph:
    """Makes the graph of a task of options.

    Inputs: `context` and `question` `[batch]`, `options` `[batch, choices]`,
    where questions of one batch have equally many. Outputs: `logits` and
    `probabilities` float32 `[batch, choices]`, and `choice`, the place of the
    most likely option, from 0, int32 `[batch]`.

    Args:
      model: the fine-tuned model.
      tokenizer: of the model.
      max_seq_length: tokens of the longest sequence; `choice_features`
        makes the same sequences.
      max_qa_length: pieces of question and option.
      packed: see `AlbertEncoder`.

    Raises:
      InputError: the lengths do not fit together, or not the model.
    """
    if not 1 <= max_qa_length <= max_seq_length - 3:
        raise InputError(
            f"max_qa_length={max_qa_length} must be at least 1, and with "
            "[CLS], [SEP] and [SEP] at most max_seq_length="
            f"{max_seq_length}"
        )
    preprocessor = GraphPreprocessor(tokenizer, max_seq_length)
    graph = ModelGraph(model, packed)

    def call(inputs: Tensors, training: bool) -> Tensors:
        shape = tf.shape(inputs["options"])  # [batch, choices]
        # Row r of batch * choices is of this example.
        example = tf.repeat(tf.range(shape[0]), shape[1])
        texts = _questions_with_options(
            tf.gather(inputs["question"], example),
            tf.reshape(inputs["options"], [shape[0] * shape[1]]),
        )
        second = preprocessor.tokenize(texts)[:, -max_qa_length:]
        # A passage is tokenized once for all options.
        context = preprocessor.tokenize(inputs["context"])
        room = max_seq_length - 3 - second.row_lengths()
        first = _beginnings(tf.gather(context, example), room)
        sequences = preprocessor.pack_to_longest(
            [first, second], max_seq_length
        )
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
        max_seq_length=max_seq_length,
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
