"""How questions and contexts are cut into windows, as a graph."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from albert_tf.data.features.span_settings import SpanSettings


class GraphWindows(NamedTuple):
    """The windows of all questions, in order.

    Attributes:
      question_of: int64 `[windows]`, the question of each.
      pieces: ragged int64 `[windows, (pieces)]`: which pieces of its context a
        window has, counted from 0 in each context.
      max_context: bool `[all pieces of windows]`, see `SpanWindow`.
    """

    question_of: tf.Tensor
    pieces: tf.RaggedTensor
    max_context: tf.Tensor


def graph_windows(
    question_lengths: tf.Tensor,
    context_lengths: tf.Tensor,
    settings: SpanSettings,
) -> GraphWindows:
    """Cuts contexts into the windows of `span_windows`.

    Args:
      question_lengths: int64 `[batch]`: pieces of each question, at most
        `max_query_length`.
      context_lengths: int64 `[batch]`: pieces of the context of each.
      settings: lengths.
    """
    room = settings.max_seq_length - 3 - question_lengths
    stride = tf.minimum(room, settings.doc_stride)
    missing = tf.maximum(context_lengths - room, 0)
    counts = 1 + (missing + stride - 1) // stride
    question_of = tf.repeat(tf.range(tf.size(counts, tf.int64)), counts)
    number = tf.ragged.range(counts).values
    starts = number * tf.gather(stride, question_of)
    limits = tf.minimum(
        starts + tf.gather(room, question_of),
        tf.gather(context_lengths, question_of),
    )
    pieces = tf.ragged.range(starts, limits)
    return GraphWindows(
        question_of=question_of,
        pieces=pieces,
        max_context=_max_context(
            pieces, starts, limits, question_of, context_lengths
        ),
    )


def _max_context(
    pieces: tf.RaggedTensor,
    starts: tf.Tensor,
    limits: tf.Tensor,
    question_of: tf.Tensor,
    context_lengths: tf.Tensor,
) -> tf.Tensor:
    """Returns whether a window is the first with most context of a piece."""
    window_of = pieces.value_rowids()

    def of_piece(x):
        return tf.gather(x, window_of)

    sides = tf.minimum(
        pieces.values - of_piece(starts), of_piece(limits) - 1 - pieces.values
    )
    # The very sums of Python, so that what is equal there is equal here.
    bonus = 0.01 * tf.cast(limits - starts, tf.float64)
    context = tf.cast(sides, tf.float64) + of_piece(bonus)

    begins = tf.cumsum(context_lengths, exclusive=True)
    place = of_piece(tf.gather(begins, question_of)) + pieces.values
    places = tf.reduce_sum(context_lengths)
    most = tf.math.unsorted_segment_max(context, place, places)
    has_most = context == tf.gather(most, place)
    none = tf.size(question_of, tf.int64)
    first = tf.math.unsorted_segment_min(
        tf.where(has_most, window_of, none), place, places
    )
    return window_of == tf.gather(first, place)
