"""Rows of several chunks, taken apart and put together in a TensorFlow graph.

Text is packed by `row_packing`; a record is a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf


def _ragged() -> tf.io.RaggedFeature:
    return tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64)


# Of a record of packed text; see `row_packing.ChunkRows.features`.
ROW_FEATURES = {
    "tokens": _ragged(),
    "chunk_starts": _ragged(),
    "sentence_starts": _ragged(),
    "documents": _ragged(),
}


def split_rows(
    rows: Mapping[str, tf.RaggedTensor],
) -> tuple[dict[str, Any], tf.Tensor]:
    """Takes rows apart.

    Args:
      rows: `ROW_FEATURES` of `[rows]` records.

    Returns:
      `dynamic_examples.CHUNK_FEATURES` of the chunks of all rows, one row's
      after the other's; and int64 `[rows]`, how many are of each row.
    """
    tokens, sentences = rows["tokens"], rows["sentence_starts"]
    first = tf.zeros([tokens.nrows(), 1], tf.int64)
    begins = tf.concat([first, rows["chunk_starts"]], axis=1)
    # From here on, offsets count in the tokens of all rows.
    first_token = tokens.row_starts()
    chunk_begins = begins.flat_values + tf.gather(
        first_token, begins.value_rowids()
    )
    sentence_begins = sentences.flat_values + tf.gather(
        first_token, sentences.value_rowids()
    )
    chunk_of_sentence = (
        tf.searchsorted(
            chunk_begins, sentence_begins, side="right", out_type=tf.int64
        )
        - 1
    )
    chunks = {
        "tokens": tf.RaggedTensor.from_row_starts(
            tokens.flat_values, chunk_begins
        ),
        "sentence_starts": tf.RaggedTensor.from_value_rowids(
            sentence_begins - tf.gather(chunk_begins, chunk_of_sentence),
            chunk_of_sentence,
            nrows=tf.size(chunk_begins, tf.int64),
        ),
        "document": rows["documents"].flat_values,
    }
    return chunks, begins.row_lengths()


def join_rows(
    examples: Mapping[str, tf.Tensor],
    chunks_per_row: tf.Tensor,
    max_sequences: int,
) -> dict[str, tf.Tensor]:
    """Puts examples of chunks together to rows.

    Args:
      examples: the features of `pretraining_dataset`, of chunks in rows of
        their own.
      chunks_per_row: int64 `[rows]`.
      max_sequences: most sequences of a row.

    Returns:
      The features of `pretraining_dataset`, of rows of several sequences:
      labels are int32 `[rows, max_sequences]`. And what else is told of the
      sequences: int32 `sequence_ids` `[rows, seq]` and `sequence_starts`
      `[rows, max_sequences]`, the inputs of `AlbertPretrainer`; float32
      `sentence_order_weights` `[rows, max_sequences]`, 1 for those there are.
    """
    mask = examples["input_mask"]
    lengths = tf.reduce_sum(mask, axis=1)
    weights = examples["masked_lm_weights"]
    predictions = tf.reduce_sum(tf.cast(weights, tf.int32), axis=1)
    grouped = tf.RaggedTensor.from_row_lengths(lengths, chunks_per_row)
    before = tf.cumsum(lengths, exclusive=True)
    # Tokens before each chunk in its row, and the number of the chunk there.
    starts = before - _of_first_chunk(before, grouped)
    index = tf.range(tf.size(lengths))
    numbers = 1 + index - _of_first_chunk(index, grouped)

    def joined(values: tf.Tensor, sizes: tf.Tensor) -> tf.Tensor:
        """`[chunks, width]`, of which `sizes` count -> `[rows, width]`."""
        totals = tf.reduce_sum(grouped.with_values(sizes), axis=1)
        parts = tf.RaggedTensor.from_tensor(values, sizes).flat_values
        row = tf.RaggedTensor.from_row_lengths(parts, totals)
        return row.to_tensor(shape=[None, values.shape[1]])

    def listed(values: tf.Tensor) -> tf.Tensor:
        """`[chunks]` -> `[rows, max_sequences]`."""
        return grouped.with_values(values).to_tensor(
            shape=[None, max_sequences]
        )

    tokens = ("input_word_ids", "input_mask", "input_type_ids")
    masked = ("masked_lm_ids", "masked_lm_weights")
    positions = examples["masked_lm_positions"] + starts[:, tf.newaxis]
    labels = examples["sentence_order_labels"]
    return {
        **{name: joined(examples[name], lengths) for name in tokens},
        **{name: joined(examples[name], predictions) for name in masked},
        "masked_lm_positions": joined(positions, predictions),
        "sequence_ids": joined(mask * numbers[:, tf.newaxis], lengths),
        "sequence_starts": listed(starts),
        "sentence_order_labels": listed(labels),
        "sentence_order_weights": listed(tf.ones_like(labels, tf.float32)),
    }


def share_predictions(
    quotas: tf.Tensor, chunks_per_row: tf.Tensor, most: int
) -> tf.Tensor:
    """Lowers the predictions of chunks where their row has too many.

    Args:
      quotas: int32 `[chunks]`, predictions of each if it had its own row.
      chunks_per_row: int64 `[rows]`.
      most: most predictions of a row.

    Returns:
      int32 `[chunks]`; those of a row add up to at most `most`, and are in the
      ratio of the quotas if that is less.
    """
    grouped = tf.RaggedTensor.from_row_lengths(
        tf.cast(quotas, tf.int64), chunks_per_row
    )
    totals = tf.gather(tf.reduce_sum(grouped, axis=1), grouped.value_rowids())
    ends = tf.cumsum(grouped.values)
    begins = ends - grouped.values
    first = _of_first_chunk(begins, grouped)

    def shared(numbers: tf.Tensor) -> tf.Tensor:
        return (numbers - first) * most // tf.maximum(totals, most)

    return tf.cast(shared(ends) - shared(begins), tf.int32)


def _of_first_chunk(values: tf.Tensor, grouped: tf.RaggedTensor) -> tf.Tensor:
    """Returns for each chunk the value of the first one of its row."""
    first = tf.gather(grouped.row_starts(), grouped.value_rowids())
    return tf.gather(values, first)
