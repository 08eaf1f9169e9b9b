"""Layouts of token rows: padded, and packed (ModernBERT's "unpadding").

Inside the encoder, activations are rows `[tokens, hidden]`: each projection is
one 2-D matrix product, which TensorFlow fuses with bias and GELU on CPUs. There
are two layouts:

- `PaddedRows`: all positions of the batch, including padding. Shapes are
  static, for XLA, TPUs and all backends.
- `PackedRows`: only the tokens, so that projections do not compute padding.
  Shapes depend on the mask, for graphs on CPUs and GPUs.

Blocks do not depend on the layout, except for attention, which needs sequences.
"""

from __future__ import annotations

import keras
from keras import ops

# The original's additive mask; exp(-10000) is 0 in float32.
_MASKED_SCORE = -10000.0


def take_rows(table, ids, batch_dims: int = 0):
    """Looks up rows; negative ids do not count from the end.

    `keras.ops.take`, and hence Keras's `Embedding`, returns the last row for
    -1. Here, an id out of range is an error on CPUs. Where errors cannot be
    raised, the result is zeros (TensorFlow on GPUs), NaN (JAX) or another row
    (TensorFlow with XLA).

    Args:
      table: `[..., rows, size]` or `[..., rows]`.
      ids: integers of any shape, with the same batch dimensions.
      batch_dims: number of batch dimensions, 0 or 1.
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.gather(table, ids, batch_dims=batch_dims)
    rows = ops.shape(table)[batch_dims]
    exists = ops.logical_and(ids >= 0, ids < rows)
    if not batch_dims:
        return ops.take(table, ops.where(exists, ids, rows), axis=0)
    # Flattened to one table, as `ops.take_along_axis` on PyTorch returns row 0
    # for ids out of range.
    batch, *_ = ops.shape(table)
    firsts = ops.expand_dims(ops.arange(batch, dtype=ids.dtype) * rows, 1)
    ids = ops.where(exists, ids + firsts, batch * rows)
    return ops.take(ops.reshape(table, (-1, *table.shape[2:])), ids, axis=0)


def positions_in_sequences(sequence_ids):
    """Returns the position of each token in its sequence, from 0.

    Args:
      sequence_ids: `[batch, seq]`; see `PaddedRows`.

    Returns:
      int32 `[batch, seq]`.
    """
    same = ops.cast(_same_sequence(sequence_ids, sequence_ids), "int32")
    return ops.sum(ops.tril(same, -1), axis=-1)


def _same_sequence(query_ids, key_ids):
    """Compares ids `[batch, queries]` and `[batch, keys]` pairwise."""
    return ops.equal(ops.expand_dims(query_ids, 2), ops.expand_dims(key_ids, 1))


class PaddedRows:
    """Layout of rows `[batch * seq, size]`, one for each position.

    Args:
      mask: `[batch, seq]`, 1 for tokens and 0 for padding.
      sequence_ids: `[batch, seq]`, the sequence of each token in its row, or
        None. Tokens attend only to their own sequence.

    Attributes:
      positions: position of each token in its sequence, int32 `[batch, seq]`;
        None for 0, 1, ... in every row.
    """

    def __init__(self, mask, sequence_ids=None):
        self.mask = mask
        self.sequence_ids = sequence_ids
        self.positions = None
        if sequence_ids is not None:
            self.positions = positions_in_sequences(sequence_ids)
        self.batch, self.length = ops.shape(mask)
        # Shared by all blocks.
        self._attention_bias = self._bias_of_queries(sequence_ids)

    def attention_bias(self, positions=None):
        """Returns the float32 bias that is added to the scores of every head.

        Args:
          positions: positions of the queries, `[batch, picks]`, or None for
            all.

        Returns:
          `[batch, 1, 1, seq]`; with sequence ids, `[batch, 1, queries, seq]`.
        """
        if positions is None or self.sequence_ids is None:
            return self._attention_bias
        return self._bias_of_queries(
            ops.take_along_axis(self.sequence_ids, positions, axis=1)
        )

    def _bias_of_queries(self, query_ids):
        visible = ops.cast(self.mask, "float32")
        if query_ids is not None:
            same = _same_sequence(query_ids, self.sequence_ids)
            visible = ops.expand_dims(visible, 1) * ops.cast(same, "float32")
            return ops.expand_dims((1.0 - visible) * _MASKED_SCORE, 1)
        bias = (1.0 - visible) * _MASKED_SCORE
        # Not bias[:, None, None]: TensorFlow Lite's converter cannot slice
        # tensors with two unknown dimensions.
        return ops.expand_dims(ops.expand_dims(bias, 1), 1)

    def to_rows(self, inputs):
        """Converts `[batch, seq, size]` to rows."""
        return ops.reshape(inputs, (-1, inputs.shape[-1]))

    def to_batch(self, rows):
        """Converts rows to `[batch, seq, size]`; padding is undefined."""
        return ops.reshape(rows, (self.batch, self.length, rows.shape[-1]))

    def restore(self, rows):
        """Converts rows to `[batch, seq, size]`, an output of the model."""
        return self.to_batch(rows)

    def restore_attentions(self, probs):
        """Zeroes the attentions of padding in `[batch, heads, seq, seq]`."""
        mask = ops.cast(self.mask, probs.dtype)
        return probs * ops.expand_dims(ops.expand_dims(mask, 1), 3)

    def take(self, rows, positions):
        """Gathers rows at `positions` `[batch, picks]`.

        Rows of padding are undefined. Unused slots of `masked_lm_positions` are
        0, which is never padding.

        Returns:
          `[batch * picks, size]`.
        """
        positions = ops.cast(positions, "int32")
        picked = take_rows(self.to_batch(rows), positions, batch_dims=1)
        return ops.reshape(picked, (-1, rows.shape[-1]))


class PackedRows(PaddedRows):
    """Layout of rows `[sum of mask, size]`, one per token; TensorFlow only.

    A batch without any token has one row, which is that of padding.
    """

    def __init__(self, mask, sequence_ids=None):
        super().__init__(mask, sequence_ids)
        if keras.backend.backend() != "tensorflow":
            raise ValueError(
                "packed=True needs shapes that depend on the mask, which the "
                f"backend {keras.backend.backend()!r} does not support; use "
                "packed=False"
            )
        flat = ops.reshape(ops.cast(mask, "int32"), (-1,))
        # Padding, too, is mapped to a row.
        is_empty = ops.cast(ops.equal(ops.sum(flat), 0), "int32")
        flat = ops.concatenate([flat[:1] + is_empty, flat[1:]])
        self._real = ops.cast(ops.nonzero(flat)[0], "int32")
        # Position -> row. Padding maps to any row: attention masks it as a key
        # and discards it as a query.
        self._row_of = ops.maximum(ops.cumsum(flat) - 1, 0)

    def to_rows(self, inputs):
        """Converts `[batch, seq, size]` to rows, without padding."""
        return ops.take(super().to_rows(inputs), self._real, axis=0)

    def to_batch(self, rows):
        """Converts rows to `[batch, seq, size]`; padding repeats other rows."""
        return super().to_batch(ops.take(rows, self._row_of, axis=0))

    def restore(self, rows):
        """Converts rows to `[batch, seq, size]`, with zeros for padding."""
        mask = ops.cast(self.mask, rows.dtype)
        return self.to_batch(rows) * mask[:, :, None]

    def take(self, rows, positions):
        """Gathers rows at `positions` `[batch, picks]`; see `PaddedRows`."""
        positions = ops.cast(positions, "int32")
        row_of = ops.reshape(self._row_of, (self.batch, self.length))
        picked = take_rows(row_of, positions, batch_dims=1)
        return ops.take(rows, ops.reshape(picked, (-1,)), axis=0)
