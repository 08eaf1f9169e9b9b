"""Windows and characters of contexts, as tensors."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from albert_tf.finetuning.serving import spaces


class Windows(NamedTuple):
    """Windows of a batch of questions, ordered by question.

    Attributes:
      question_of: int64 `[windows]`, the question of each window.
      starts: int64 `[windows]`, first piece of the context in each window.
      ends: int64 `[windows]`, end of the context's pieces in each window.
      max_context: ragged bool `[windows, (pieces)]`, whether no other window
        has more context around the piece. Answers start at such pieces only, so
        that no span is scored twice.
    """

    question_of: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    max_context: tf.RaggedTensor


# As a graph, the windows of one question take a fifth of the time.
@tf.function(autograph=False, reduce_retracing=True)
def cut_windows(
    question_lengths: tf.Tensor,
    context_lengths: tf.Tensor,
    *,
    max_seq_length: int,
    doc_stride: int,
) -> Windows:
    """Cuts contexts into the original's windows, eagerly or in a graph.

    Every question has at least one window, even if its context is empty.

    Args:
      question_lengths, context_lengths: int64 `[questions]`, in pieces.
      max_seq_length, doc_stride: See `WindowSettings`.
    """
    room = max_seq_length - 3 - question_lengths
    stride = tf.minimum(room, doc_stride)
    missing = tf.maximum(context_lengths - room, 0)
    counts = 1 + (missing + stride - 1) // stride
    question_of = tf.repeat(tf.range(tf.size(counts, tf.int64)), counts)
    starts = tf.ragged.range(counts).values * tf.gather(stride, question_of)
    ends = tf.minimum(
        starts + tf.gather(room, question_of),
        tf.gather(context_lengths, question_of),
    )
    return Windows(
        question_of=question_of,
        starts=starts,
        ends=ends,
        max_context=_max_context(starts, ends, question_of, context_lengths),
    )


def _max_context(
    starts: tf.Tensor,
    ends: tf.Tensor,
    question_of: tf.Tensor,
    context_lengths: tf.Tensor,
) -> tf.RaggedTensor:
    """Returns whether a window is the first with the most context of a piece.

    The context is the minimum of the number of pieces before and after it, plus
    a bonus for the length of the window.
    """
    pieces = tf.ragged.range(starts, ends)
    window_of = pieces.value_rowids()

    def of_piece(x):
        return tf.gather(x, window_of)

    sides = tf.minimum(
        pieces.values - of_piece(starts), of_piece(ends) - 1 - pieces.values
    )
    # In float64 like the original, which breaks ties in the same way.
    bonus = 0.01 * tf.cast(ends - starts, tf.float64)
    context = tf.cast(sides, tf.float64) + of_piece(bonus)

    offsets = tf.cumsum(context_lengths, exclusive=True)
    piece_of = of_piece(tf.gather(offsets, question_of)) + pieces.values
    count = tf.reduce_sum(context_lengths)
    maximum = tf.math.unsorted_segment_max(context, piece_of, count)
    is_maximum = context == tf.gather(maximum, piece_of)
    no_window = tf.size(question_of, tf.int64)
    first = tf.math.unsorted_segment_min(
        tf.where(is_maximum, window_of, no_window), piece_of, count
    )
    return pieces.with_values(window_of == tf.gather(first, piece_of))


class Contexts:
    """Concatenated characters of contexts, given as UTF-8 strings `[contexts]`.

    Attributes:
      offsets: int64 `[contexts]`, position of each context's first character.
    """

    def __init__(self, texts: tf.Tensor):
        characters, byte_offsets = tf.strings.unicode_decode_with_offsets(
            texts, "UTF-8"
        )
        sizes = tf.cast(tf.strings.length(texts, "BYTE"), tf.int64)
        self._byte_offsets = tf.cumsum(sizes, exclusive=True)
        self._bytes = tf.concat(
            [
                tf.gather(self._byte_offsets, byte_offsets.value_rowids())
                + byte_offsets.values,
                tf.reduce_sum(sizes, keepdims=True),
            ],
            0,
        )
        self._characters = characters
        self.offsets = characters.row_starts()

    def to_characters(
        self, contexts: tf.Tensor, byte_positions: tf.Tensor
    ) -> tf.Tensor:
        """Converts positions in contexts from bytes to characters.

        `contexts` has the context of each position; all are int64.
        """
        found = tf.searchsorted(
            self._bytes,
            tf.gather(self._byte_offsets, contexts) + byte_positions,
            out_type=tf.int64,
        )
        return found - tf.gather(self.offsets, contexts)

    def to_bytes(self, contexts: tf.Tensor, characters: tf.Tensor) -> tf.Tensor:
        """Converts positions from characters to bytes."""
        found = tf.gather(
            self._bytes, tf.gather(self.offsets, contexts) + characters
        )
        return found - tf.gather(self._byte_offsets, contexts)

    def strip(
        self, starts: tf.Tensor, ends: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Strips white space from spans, like `str.strip`.

        Starts and ends are int64 `[spans]`, in the characters of all contexts.
        Both are the old end if the span is empty or only white space.
        """
        whitespace = tf.constant([*spaces(), -1])
        characters = self._characters.values
        solid = tf.where(  # Positions that are not white space.
            tf.gather(whitespace, tf.searchsorted(whitespace[:-1], characters))
            != characters
        )[:, 0]
        last = tf.size(characters, tf.int64)
        # Unicode normalization may reorder marks, and so their offsets.
        ends = tf.maximum(ends, starts)
        next_solid = tf.gather(
            tf.concat([solid, [last]], 0), tf.searchsorted(solid, starts)
        )
        after_solid = tf.gather(
            tf.concat([[0], solid + 1], 0), tf.searchsorted(solid, ends)
        )
        starts = tf.minimum(next_solid, ends)
        return starts, tf.maximum(after_solid, starts)

    def substrings(self, starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
        """Returns the texts `[spans]` of spans of all contexts.

        They are encoded from characters, because `tf.strings.substr` would need
        a copy of the context for each span.
        """
        positions = tf.ragged.range(starts, ends)
        return tf.strings.unicode_encode(
            positions.with_values(
                tf.gather(self._characters.values, positions.values)
            ),
            "UTF-8",
        )
