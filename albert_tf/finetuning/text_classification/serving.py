"""Serving graphs of text classification and regression."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.finetuning.serving import TEXTS, ServingGraph
from albert_tf.finetuning.text_classification.model import AlbertClassifier
from albert_tf.models.model_graph import ModelGraph, Tensors
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.preprocessor import GraphPreprocessor

TEXT = "text"
TEXT_PAIR = "text_pair"


def text_classification_graph(
    model: AlbertClassifier,
    tokenizer: Tokenizer,
    *,
    labels: Sequence[str],
    pair: bool,
    max_seq_length: int,
    packed: bool = True,
) -> ServingGraph:
    """Makes the graph of a task of classes.

    Inputs: `text` `[batch]`, and for pairs `text_pair` `[batch]`. Outputs:
    `logits` and `probabilities` float32 `[batch, labels]`, and `label`, the
    most likely one, strings `[batch]`.

    Args:
      model: the fine-tuned model.
      tokenizer: of the model.
      labels: in the order of its outputs.
      pair: whether an example is two texts.
      max_seq_length: tokens of the longest sequence; see `text_features`, which
        makes the same sequences.
      packed: see `AlbertEncoder`.

    Raises:
      InputError: `max_seq_length` is below 4 (of pairs 5) or beyond the
        model's, or there are not as many labels as outputs.
    """
    if len(labels) != model.num_labels:
        raise InputError(
            f"labels={','.join(labels)}: there are {len(labels)}, but the "
            f"model has {model.num_labels} outputs"
        )

    def outputs(logits: tf.Tensor) -> Tensors:
        best = tf.argmax(logits, axis=-1, output_type=tf.int32)
        return {
            "logits": logits,
            "probabilities": tf.nn.softmax(logits),
            "label": tf.gather(tf.constant(labels), best),
        }

    graph = text_graph(
        model,
        tokenizer,
        outputs,
        pair=pair,
        max_seq_length=max_seq_length,
        packed=packed,
    )
    return dataclasses.replace(graph, labels=tuple(labels))


def regression_graph(
    model: AlbertClassifier,
    tokenizer: Tokenizer,
    *,
    pair: bool,
    max_seq_length: int,
    packed: bool = True,
) -> ServingGraph:
    """Makes the graph of a task of numbers: `value`, float32 `[batch]`.

    Everything else is as in `text_classification_graph`.

    Raises:
      InputError: `max_seq_length` is below 4 (of pairs 5) or beyond the
        model's, or the model has more than one output.
    """
    if model.num_labels != 1:
        raise InputError(
            f"num_labels={model.num_labels} of the model must be 1 for a number"
        )

    def outputs(logits: tf.Tensor) -> Tensors:
        return {"value": logits[:, 0]}

    return text_graph(
        model,
        tokenizer,
        outputs,
        pair=pair,
        max_seq_length=max_seq_length,
        packed=packed,
    )


def text_graph(
    model: AlbertClassifier,
    tokenizer: Tokenizer,
    outputs: Callable[[tf.Tensor], Tensors],
    *,
    pair: bool,
    max_seq_length: int,
    packed: bool = True,
) -> ServingGraph:
    """Makes the graph of a model of texts or pairs of texts.

    Args:
      model: the fine-tuned model.
      tokenizer: of the model.
      outputs: maps logits `[batch, num_labels]` to outputs by name.
      pair: whether an example is two texts.
      max_seq_length: tokens of the longest sequence, see `text_features`.
      packed: see `AlbertEncoder`.

    Raises:
      InputError: `max_seq_length` is below 4 (of pairs 5) or beyond the
        model's.
    """
    if max_seq_length < (5 if pair else 4):
        raise InputError(
            f"max_seq_length={max_seq_length} must be at least 4, to hold "
            "[CLS], [SEP] and a piece, or 5 for pairs"
        )
    names = [TEXT, TEXT_PAIR] if pair else [TEXT]
    preprocessor = GraphPreprocessor(tokenizer, max_seq_length)
    graph = ModelGraph(model, packed)

    def call(inputs: Tensors, training: bool) -> Tensors:
        segments = [preprocessor.tokenize(inputs[name]) for name in names]
        sequences = preprocessor.pack_to_longest(segments, max_seq_length)
        if pair:
            sequences = _without_empty_pairs(preprocessor, segments, sequences)
        return outputs(graph(sequences, training))

    return ServingGraph(
        model=graph,
        preprocessor=preprocessor,
        inputs=dict.fromkeys(names, TEXTS),
        call=call,
        max_seq_length=max_seq_length,
    )


def _without_empty_pairs(
    preprocessor: GraphPreprocessor,
    segments: list[tf.RaggedTensor],
    sequences: Tensors,
) -> Tensors:
    """Replaces sequences whose second text is empty by the first alone."""
    length = tf.shape(sequences["input_word_ids"])[1]
    alone = preprocessor.bert_pack_inputs(segments[:1], length)
    empty = segments[1].row_lengths()[:, None] == 0
    return {
        name: tf.where(empty, alone[name], sequences[name])
        for name in sequences
    }
