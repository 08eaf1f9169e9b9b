"""The digit-comma rule as TensorFlow operations."""

from collections.abc import Mapping

import tensorflow as tf

from albert_tf.text.digit_comma import SplitPiece

# As a distance from the end of a piece: further back than any piece begins.
_WHOLE_PIECE = tf.int32.max


class GraphDigitComma(tf.Module):
    """The table of `split_digit_commas`, as ragged constants.

    Every id has a row: its replacement, or itself.
    """

    def __init__(
        self, splits: Mapping[int, tuple[SplitPiece, ...]], vocab_size: int
    ):
        """Lays out the table for ids below `vocab_size`."""
        super().__init__(name="digit_comma")
        rows = [
            splits.get(i) or (SplitPiece("", i, _WHOLE_PIECE, 0),)
            for i in range(vocab_size)
        ]
        with tf.init_scope(), tf.device("CPU:0"):

            def ragged(values, dtype):
                return tf.RaggedTensor.from_row_lengths(
                    tf.constant(values, dtype),
                    tf.constant([len(row) for row in rows], tf.int64),
                )

            self._ids = ragged([p.id for row in rows for p in row], tf.int32)
            # The first part of a piece takes whatever text is before it.
            self._starts = ragged(
                [
                    p.start if i else _WHOLE_PIECE
                    for row in rows
                    for i, p in enumerate(row)
                ],
                tf.int64,
            )
            self._limits = ragged(
                [p.limit for row in rows for p in row], tf.int64
            )

    def split(self, ids: tf.Tensor) -> tf.RaggedTensor:
        """Replaces `[tokens]` ids by `[tokens, (parts)]`."""
        return tf.gather(self._ids, ids)

    def divide(
        self, ids: tf.Tensor, begins: tf.Tensor, ends: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns where the text of each part begins and ends.

        Args:
          ids: int32 `[tokens]`, before the split.
          begins: int64 `[tokens]`, the first character of each.
          ends: int64 `[tokens]`, the one after the last.

        Returns:
          int64 `[all parts]`, for the begins and for the ends.
        """
        starts = tf.gather(self._starts, ids)
        begins = tf.gather(begins, starts.value_rowids())
        ends = tf.gather(ends, starts.value_rowids())
        limits = tf.gather(self._limits, ids)
        return (
            tf.maximum(begins, ends - starts.values),
            tf.maximum(begins, ends - limits.values),
        )
