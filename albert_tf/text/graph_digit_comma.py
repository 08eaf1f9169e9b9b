"""The digit-comma rule as TensorFlow operations."""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from albert_tf.text.digit_comma import SplitPiece
from albert_tf.text.graph_replace import replace_elements, replaced_lengths

# As a distance from the end of a piece: further back than any piece begins.
_WHOLE_PIECE = tf.int32.max


class GraphDigitComma(tf.Module):
    """The table of `split_digit_commas`, applied to ragged ids."""

    def __init__(
        self, splits: Mapping[int, tuple[SplitPiece, ...]], vocab_size: int
    ):
        """Lays out the table for ids below `vocab_size`."""
        super().__init__(name="digit_comma")
        row_of = np.full([vocab_size], -1, np.int32)
        row_of[list(splits)] = np.arange(len(splits))
        parts = [part for row in splits.values() for part in row]
        # The first part of a piece takes whatever text is before it.
        starts = [
            part.start if i else _WHOLE_PIECE
            for row in splits.values()
            for i, part in enumerate(row)
        ]
        with tf.init_scope(), tf.device("CPU:0"):
            row_splits = tf.constant(
                np.cumsum([0, *map(len, splits.values())]), tf.int64
            )

            def rows(values):
                return tf.RaggedTensor.from_row_splits(
                    tf.constant(values, tf.int32), row_splits
                )

            self._row_of = tf.constant(row_of)
            self._ids = rows([part.id for part in parts])
            self._starts = rows(starts)
            self._limits = rows([part.limit for part in parts])

    def split(self, ids: tf.RaggedTensor) -> tf.RaggedTensor:
        """Returns `[batch, (tokens)]` ids with each split piece's parts."""
        places, row_of_place = self._find(ids)
        return replace_elements(ids, places, self._ids, row_of_place)

    def divide(
        self, ids: tf.RaggedTensor, begins: tf.Tensor, ends: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns where the text of each token begins and ends, after `split`.

        Args:
          ids: int32 `[batch, (tokens)]`, before the split.
          begins: int64 `[all tokens]`, the first character of each.
          ends: int64 `[all tokens]`, the one after the last.

        Returns:
          int64 `[all tokens after the split]`, begins and ends.
        """
        places, row_of_place = self._find(ids)

        def part_of(whole: int, rows: tf.RaggedTensor) -> tf.Tensor:
            wholes = ids.with_values(tf.fill(tf.shape(ids.values), whole))
            parts = replace_elements(wholes, places, rows, row_of_place)
            return tf.cast(parts.values, tf.int64)

        repeats = replaced_lengths(ids, places, self._ids, row_of_place)
        begins = tf.repeat(begins, repeats)
        ends = tf.repeat(ends, repeats)
        return (
            tf.maximum(begins, ends - part_of(_WHOLE_PIECE, self._starts)),
            tf.maximum(begins, ends - part_of(0, self._limits)),
        )

    def _find(self, ids: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the flat places of pieces to split, and their rows."""
        row_of = tf.gather(self._row_of, ids.values)
        places = tf.where(row_of >= 0)[:, 0]
        return places, tf.cast(tf.gather(row_of, places), tf.int64)
