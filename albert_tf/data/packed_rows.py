"""Rows of several chunks, drawn as examples of one chunk and joined."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from albert_tf.text.packing import ENCODER_INPUTS


def split_rows(
    rows: Mapping[str, tf.RaggedTensor],
) -> tuple[dict[str, Any], tf.Tensor]:
    """Splits rows into chunks.

    Args:
      rows: `ROW_FEATURES` of `[rows]` records.

    Returns:
      `CHUNK_FEATURES` of the chunks of all rows, in order; and
      int64 `[rows]`, the number of chunks of each row.
    """
    tokens, sentences = rows["tokens"], rows["sentence_starts"]
    first = tf.zeros([tokens.nrows(), 1], tf.int64)
    starts_in_row = tf.concat([first, rows["chunk_starts"]], axis=1)
    # Convert to offsets into the tokens of all rows.
    row_starts = tokens.row_starts()
    chunk_starts = starts_in_row.flat_values + tf.gather(
        row_starts, starts_in_row.value_rowids()
    )
    sentence_starts = sentences.flat_values + tf.gather(
        row_starts, sentences.value_rowids()
    )
    chunk_of_sentence = (
        tf.searchsorted(
            chunk_starts, sentence_starts, side="right", out_type=tf.int64
        )
        - 1
    )
    chunks = {
        "tokens": tf.RaggedTensor.from_row_starts(
            tokens.flat_values, chunk_starts
        ),
        "sentence_starts": tf.RaggedTensor.from_value_rowids(
            sentence_starts - tf.gather(chunk_starts, chunk_of_sentence),
            chunk_of_sentence,
            nrows=tf.size(chunk_starts, tf.int64),
        ),
        "document": rows["documents"].flat_values,
    }
    return chunks, starts_in_row.row_lengths()


def join_rows(
    examples: Mapping[str, tf.Tensor],
    chunks_per_row: tf.Tensor,
    max_sequences: int,
) -> dict[str, tf.Tensor]:
    """Joins examples into rows of several sequences.

    Args:
      examples: the features of `pretraining_dataset`, one row per chunk.
      chunks_per_row: int64 `[rows]`.
      max_sequences: maximum number of sequences in a row.

    Returns:
      The features of `pretraining_dataset` for such rows. Labels are int32
      `[rows, max_sequences]`. In addition, int32 `sequence_ids` `[rows, seq]`
      and `sequence_starts` `[rows, max_sequences]`, the inputs of
      `AlbertPretrainer`. The float32 `sentence_order_weights`
      `[rows, max_sequences]` are also 0 for missing sequences.
    """
    mask = examples["input_mask"]
    lengths = tf.reduce_sum(mask, axis=1)
    weights = examples["masked_lm_weights"]
    predictions = tf.reduce_sum(tf.cast(weights, tf.int32), axis=1)
    grouped = tf.RaggedTensor.from_row_lengths(lengths, chunks_per_row)
    before = tf.cumsum(lengths, exclusive=True)
    # Offset of each chunk in its row, and its number there, from 1.
    starts = before - _value_of_first_chunk(before, grouped)
    index = tf.range(tf.size(lengths))
    numbers = 1 + index - _value_of_first_chunk(index, grouped)

    def concatenate(values: tf.Tensor, sizes: tf.Tensor) -> tf.Tensor:
        """Joins `[chunks, width]`, without padding, to `[rows, width]`."""
        totals = tf.reduce_sum(grouped.with_values(sizes), axis=1)
        flat = tf.RaggedTensor.from_tensor(values, sizes).flat_values
        row = tf.RaggedTensor.from_row_lengths(flat, totals)
        return row.to_tensor(shape=[None, values.shape[1]])

    def stack(values: tf.Tensor) -> tf.Tensor:
        """Joins `[chunks]` to `[rows, max_sequences]`."""
        return grouped.with_values(values).to_tensor(
            shape=[None, max_sequences]
        )

    masked = ("masked_lm_ids", "masked_lm_weights")
    positions = examples["masked_lm_positions"] + starts[:, tf.newaxis]
    orders = ("sentence_order_labels", "sentence_order_weights")
    return {
        **{
            name: concatenate(examples[name], lengths)
            for name in ENCODER_INPUTS
        },
        **{name: concatenate(examples[name], predictions) for name in masked},
        "masked_lm_positions": concatenate(positions, predictions),
        "sequence_ids": concatenate(mask * numbers[:, tf.newaxis], lengths),
        "sequence_starts": stack(starts),
        **{name: stack(examples[name]) for name in orders},
    }


def share_predictions(
    quotas: tf.Tensor, chunks_per_row: tf.Tensor, max_predictions: int
) -> tf.Tensor:
    """Reduces the numbers of predictions of rows that exceed the maximum.

    Args:
      quotas: int32 `[chunks]`, predictions of each chunk in a row of its own.
      chunks_per_row: int64 `[rows]`.
      max_predictions: maximum number of predictions of a row.

    Returns:
      int32 `[chunks]`, reduced in proportion where a row exceeds the maximum.
    """
    grouped = tf.RaggedTensor.from_row_lengths(
        tf.cast(quotas, tf.int64), chunks_per_row
    )
    totals = tf.gather(tf.reduce_sum(grouped, axis=1), grouped.value_rowids())
    ends = tf.cumsum(grouped.values)
    starts = ends - grouped.values
    first = _value_of_first_chunk(starts, grouped)

    def scale(cumulative: tf.Tensor) -> tf.Tensor:
        in_row = cumulative - first
        return in_row * max_predictions // tf.maximum(totals, max_predictions)

    return tf.cast(scale(ends) - scale(starts), tf.int32)


def _value_of_first_chunk(
    values: tf.Tensor, grouped: tf.RaggedTensor
) -> tf.Tensor:
    """Returns, for each chunk, the value of the first chunk of its row."""
    first = tf.gather(grouped.row_starts(), grouped.value_rowids())
    return tf.gather(values, first)
