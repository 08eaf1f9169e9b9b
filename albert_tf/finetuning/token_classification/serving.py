"""Serving graph of token classification."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.finetuning.serving import (
    TEXTS,
    ServingGraph,
    split,
)
from albert_tf.finetuning.token_classification.model import (
    AlbertTokenClassifier,
)
from albert_tf.models.model_graph import ModelGraph, Tensors
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.preprocessor import GraphPreprocessor

TEXT = "text"
WORDS = "words"


class WordSequences(NamedTuple):
    """The sequences of sentences, and where in them their words are.

    Attributes:
      pieces: ragged int32 `[sequences, (pieces)]`.
      sequence_of: int64 `[words]`: the sequence that a word is in.
      position_of: int64 `[words]`: where in `pieces` of the sequence it begins.
    """

    pieces: tf.RaggedTensor
    sequence_of: tf.Tensor
    position_of: tf.Tensor


def token_classification_graph(
    model: AlbertTokenClassifier,
    tokenizer: Tokenizer,
    *,
    labels: Sequence[str],
    max_seq_length: int,
    packed: bool = True,
) -> ServingGraph:
    """Makes the graph of a task of labels of words.

    Inputs: `text` `[batch]`, which is split at whitespace as `str.split` does;
    or `words` `[batch, words]`, where "" is no word but padding. Outputs, with
    as many places as there are in `words` or in the longest text:

    - `words`, strings `[batch, words]`: what the labels are of, "" for padding
    - `labels`, strings `[batch, words]`: the most likely ones, "" for padding
    - `logits`, `probabilities`, float32 `[batch, words, labels]`: of each word,
      zeros for padding

    Args:
      model: the fine-tuned model.
      tokenizer: of the model.
      labels: in the order of its outputs.
      max_seq_length: tokens of the longest sequence; see `word_features`, which
        makes the same sequences: a long sentence has several.
      packed: see `AlbertEncoder`.

    Raises:
      InputError: `max_seq_length` is below 3 or beyond the model's, or there
        are not as many labels as outputs.
    """
    if max_seq_length < 3:
        raise InputError(
            f"max_seq_length={max_seq_length} must be at least 3, to hold "
            "[CLS], [SEP] and a piece"
        )
    if len(labels) != model.num_labels:
        raise InputError(
            f"labels={','.join(labels)}: there are {len(labels)}, but the "
            f"model has {model.num_labels} outputs"
        )
    preprocessor = GraphPreprocessor(tokenizer, max_seq_length)
    graph = ModelGraph(model, packed)

    def call(inputs: Tensors, training: bool) -> Tensors:
        if TEXT in inputs:
            words = split(inputs[TEXT]).to_tensor("")
        else:
            words = inputs[WORDS]
        sequences = word_sequences(preprocessor, words, max_seq_length - 2)
        batch = preprocessor.pack_to_longest([sequences.pieces], max_seq_length)
        logits = tf.gather_nd(
            graph(batch, training),
            # [CLS] comes first.
            tf.stack(
                [sequences.sequence_of, sequences.position_of + 1], axis=-1
            ),
        )
        best = tf.gather(tf.constant(labels), tf.argmax(logits, axis=-1))
        places = tf.where(words != "")
        shape = tf.shape(words, tf.int64)

        def at_places(values):
            return tf.scatter_nd(
                places,
                values,
                tf.concat([shape, tf.shape(values, tf.int64)[1:]], 0),
            )

        return {
            "words": words,
            "labels": at_places(best),
            "logits": at_places(logits),
            "probabilities": at_places(tf.nn.softmax(logits)),
        }

    return ServingGraph(
        model=graph,
        preprocessor=preprocessor,
        inputs={TEXT: TEXTS},
        call=call,
        max_seq_length=max_seq_length,
        labels=tuple(labels),
        other_inputs={WORDS: {WORDS: tf.TensorSpec([None, None], tf.string)}},
    )


def word_sequences(
    preprocessor: GraphPreprocessor, words: tf.Tensor, room: int
) -> WordSequences:
    """Tokenizes words and puts them into sequences, as `word_features` does.

    Args:
      preprocessor: of the model.
      words: strings `[batch, words]`; "" is left out.
      room: pieces of the longest sequence.

    Returns:
      The sequences, and where the words that are not "" begin, in their order.
    """
    is_word = words != ""
    pieces = preprocessor.tokenize(tf.boolean_mask(words, is_word))
    # One that has no piece gets that of the unknown.
    missing = tf.cast(pieces.row_lengths() == 0, tf.int64)
    unknown = tf.RaggedTensor.from_row_lengths(
        tf.fill([tf.reduce_sum(missing)], preprocessor.tokenizer.unk_id),
        missing,
    )
    pieces = tf.concat([pieces[:, :room], unknown], axis=1)
    counts = tf.math.count_nonzero(is_word, axis=1)
    begins = _sequence_begins(pieces.row_splits, counts, room)
    word = tf.range(pieces.nrows())
    sequence_of = tf.searchsorted(begins, word, "right", tf.int64) - 1
    # Features have all pieces, one after the other: only the borders differ.
    begin_pieces = tf.gather(pieces.row_starts(), begins)
    splits = tf.concat([begin_pieces, pieces.row_splits[-1:]], 0)
    return WordSequences(
        pieces=tf.RaggedTensor.from_row_splits(pieces.values, splits),
        sequence_of=sequence_of,
        position_of=pieces.row_starts() - tf.gather(begin_pieces, sequence_of),
    )


def _sequence_begins(
    splits: tf.Tensor, counts: tf.Tensor, room: int
) -> tf.Tensor:
    """Returns the first word of each sequence, int64 `[sequences]`.

    Args:
      splits: where the pieces of each word begin, and where all end, int64
        `[words + 1]`.
      counts: words of each sentence, int64 `[batch]`.
      room: pieces of the longest sequence; no word has more.
    """
    ends = tf.cumsum(counts)
    end_of = tf.repeat(ends, counts)
    fitting = tf.searchsorted(splits, splits[:-1] + room, "right", tf.int64) - 1
    # Of each word: what the next sequence begins with if it begins a sequence.
    following = tf.minimum(fitting, end_of)

    def next_sequences(current, begins):
        candidates = tf.gather(following, current)
        current = tf.boolean_mask(
            candidates, candidates < tf.gather(end_of, current)
        )
        return current, tf.concat([begins, current], 0)

    # As often as the longest sentence has sequences: for most batches once.
    first = tf.boolean_mask(ends - counts, counts > 0)
    unknown_size = tf.TensorShape([None])
    _, begins = tf.while_loop(
        lambda current, _: tf.size(current) > 0,
        next_sequences,
        (first, first),
        (unknown_size, unknown_size),
    )
    return tf.sort(begins)
