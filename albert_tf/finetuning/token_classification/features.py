"""Features of token classification: sequences of tokenized words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.finetuning.features import (
    LABELS,
    Features,
    FeaturesBuilder,
    batched,
)
from albert_tf.finetuning.serving import Preprocessor
from albert_tf.finetuning.token_classification.examples import (
    TokenClassificationExample,
    labels_of,
)
from albert_tf.models.model_graph import Tensors
from albert_tf.tensor_ops import TensorOps
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.packing import pack_to_longest
from albert_tf.text.preprocessor import EagerPreprocessor, ragged_segment

# Label of tokens that the loss ignores.
IGNORED = -1

# Number of sentences that are tokenized at a time. Words that they share are
# tokenized once.
_CHUNK = 1024


class WordSequences(NamedTuple):
    """Sequences of sentences, and the positions of words in them.

    Attributes:
      inputs: the inputs of the encoder `[sequences, seq]`, padded to the
        longest.
      sequence_of: int64 `[words]`: the sequence of each word.
      position_of: int64 `[words]`: position of its first piece in the sequence.
    """

    inputs: Tensors
    sequence_of: tf.Tensor
    position_of: tf.Tensor


def word_sequences(
    preprocessor: Preprocessor,
    words: Any,
    counts: tf.Tensor,
    max_seq_length: int,
) -> WordSequences:
    """Tokenizes words, and splits long sentences into several sequences.

    Words are tokenized separately. A word without pieces, such as a control
    character, becomes the unknown piece. A word with more pieces than fit into
    a sequence is truncated. No word is split between sequences.

    Args:
      preprocessor: tokenizes the words.
      words: words of all sentences, strings `[words]`.
      counts: number of words in each sentence, int64 `[batch]`.
      max_seq_length: maximum length of a sequence.
    """
    room = max_seq_length - 2
    pieces = preprocessor.tokenize(words)
    # Words without pieces get the unknown piece.
    missing = tf.cast(pieces.row_lengths() == 0, tf.int64)
    unknown = tf.RaggedTensor.from_row_lengths(
        tf.fill([tf.reduce_sum(missing)], preprocessor.tokenizer.unk_id),
        missing,
    )
    pieces = tf.concat([pieces[:, :room], unknown], axis=1)
    begins = _sequence_begins(pieces.row_splits, counts, room)
    sequence_of = (
        tf.searchsorted(begins, tf.range(pieces.nrows()), "right", tf.int64) - 1
    )
    # The pieces stay the same and in order, only the row splits change.
    begin_pieces = tf.gather(pieces.row_starts(), begins)
    splits = tf.concat([begin_pieces, pieces.row_splits[-1:]], 0)
    sequences = tf.RaggedTensor.from_row_splits(pieces.values, splits)
    position = pieces.row_starts() - tf.gather(begin_pieces, sequence_of)
    return WordSequences(
        inputs=pack_to_longest(
            TensorOps(),
            preprocessor.tokenizer,
            [ragged_segment(sequences)],
            max_seq_length,
        ),
        sequence_of=sequence_of,
        position_of=position + 1,  # after [CLS]
    )


def word_features(
    examples: Iterable[TokenClassificationExample],
    tokenizer: Tokenizer,
    *,
    max_seq_length: int,
    labels: Sequence[str] | None = None,
) -> Features:
    """Tokenizes sentences; see `word_sequences`.

    Args:
      examples: the examples; may be an iterator.
      tokenizer: tokenizer of the model.
      max_seq_length: maximum length of a sequence.
      labels: names of the labels in the order of the model's outputs; None for
        unlabelled sequences.

    Returns:
      Features, whose `metadata` has for each sentence the sequence and the
      position of the first piece of each word, int64 `[2, words]`. With
      `labels`, the token column `labels` has the label of a word at its first
      piece, and `IGNORED` elsewhere.

    Raises:
      InputError: if labels are missing or not one of `labels`.
    """
    label_ids = None if labels is None else {x: i for i, x in enumerate(labels)}
    builder = FeaturesBuilder(
        pad_id=tokenizer.pad_id,
        token_padding={} if label_ids is None else {LABELS: IGNORED},
    )
    preprocessor = EagerPreprocessor(tokenizer, max_seq_length)
    positions: list[np.ndarray] = []
    for chunk in batched(examples, _CHUNK):
        words = [word for example in chunk for word in example.words]
        counts = [len(example.words) for example in chunk]
        with tf.device("CPU:0"):
            inputs, sequence_of, position_of = word_sequences(
                preprocessor,
                words,
                tf.constant(counts, tf.int64),
                max_seq_length,
            )
        places = np.stack([sequence_of, position_of])
        columns = {}
        if label_ids is not None:
            columns[LABELS] = np.full(inputs["input_mask"].shape, IGNORED)
            columns[LABELS][tuple(places)] = [
                label
                for example in chunk
                for label in labels_of(example, label_ids)
            ]
        places[0] += len(builder)
        positions += np.split(places, np.cumsum(counts)[:-1], axis=1)
        builder.extend({**inputs, **columns})
    return builder.build(positions)


def _sequence_begins(
    splits: tf.Tensor, counts: tf.Tensor, room: int
) -> tf.Tensor:
    """Returns the first word of each sequence, int64 `[sequences]`.

    Args:
      splits: row splits of the words' pieces, int64 `[words + 1]`.
      counts: number of words in each sentence, int64 `[batch]`.
      room: maximum number of pieces in a sequence; no word has more.
    """
    ends = tf.cumsum(counts)
    end_of = tf.repeat(ends, counts)
    fitting = tf.searchsorted(splits, splits[:-1] + room, "right", tf.int64) - 1
    # The first word of the next sequence, if a sequence begins at each word.
    following = tf.minimum(fitting, end_of)

    def next_sequences(current, begins):
        candidates = tf.gather(following, current)
        current = tf.boolean_mask(
            candidates, candidates < tf.gather(end_of, current)
        )
        return current, tf.concat([begins, current], 0)

    # One iteration for each sequence of the longest sentence, usually one.
    first = tf.boolean_mask(ends - counts, counts > 0)
    unknown_size = tf.TensorShape([None])
    _, begins = tf.while_loop(
        lambda current, _: tf.size(current) > 0,
        next_sequences,
        (first, first),
        (unknown_size, unknown_size),
    )
    return tf.sort(begins)
