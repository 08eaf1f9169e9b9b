"""Layouts of token rows: padded, and packed (ModernBERT's "unpadding").

Inside the encoder, activations are rows `[tokens, hidden]`, so that each
projection is one 2-D matrix product, which TensorFlow fuses with bias and GELU
on CPUs. Two layouts say which rows there are:

- `PaddedRows`: every position of the batch, padding included. A reshape: static
  shapes, for XLA, TPUs and all backends.
- `PackedRows`: the real tokens only. Padding costs nothing in the projections;
  shapes depend on the mask, so it is for graphs on CPUs and GPUs.

Blocks do not know which one they run in; only attention, which needs to see
sequences, asks.
"""

from __future__ import annotations

import keras
from keras import ops

# The original's additive mask; exp(-10000) is 0 in float32.
_MASKED_SCORE = -10000.0


def take_rows(table, ids, batch_dims: int = 0):
    """Looks up rows; an id that does not exist is never counted from the end.

    `keras.ops.take`, and so Keras's `Embedding`, gives the last row for -1.
    Here an id below 0 or beyond the last row is an error on CPUs. Accelerators,
    XLA and JAX cannot raise one: TensorFlow gives zeros on GPUs, JAX NaN, and
    XLA of TensorFlow another row.

    Args:
      table: `[..., rows, size]` or `[..., rows]`.
      ids: integers `[..., n]` of any further shape.
      batch_dims: leading dimensions that both have, 0 or 1.
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.gather(table, ids, batch_dims=batch_dims)
    rows = ops.shape(table)[batch_dims]
    exists = ops.logical_and(ids >= 0, ids < rows)
    if not batch_dims:
        return ops.take(table, ops.where(exists, ids, rows), axis=0)
    # Of one table, as `ops.take_along_axis` gives PyTorch's users row 0 for a
    # row that does not exist.
    batch, *_ = ops.shape(table)
    firsts = ops.expand_dims(ops.arange(batch, dtype=ids.dtype) * rows, 1)
    ids = ops.where(exists, ids + firsts, batch * rows)
    return ops.take(ops.reshape(table, (-1, *table.shape[2:])), ids, axis=0)


def positions_in_sequences(sequence_ids):
    """Returns the position of each token in its sequence.

    Args:
      sequence_ids: `[batch, seq]`, as `PaddedRows` takes them.

    Returns:
      int32 `[batch, seq]`; each sequence counts from 0.
    """
    same = ops.cast(_same_sequence(sequence_ids, sequence_ids), "int32")
    return ops.sum(ops.tril(same, -1), axis=-1)


def _same_sequence(query_ids, key_ids):
    """`[batch, queries]`, `[batch, keys]` -> bool `[batch, queries, keys]`."""
    return ops.equal(ops.expand_dims(query_ids, 2), ops.expand_dims(key_ids, 1))


class PaddedRows:
    """Rows are all positions: `[batch * seq, size]`.

    Args:
      mask: `[batch, seq]`, 1 for real tokens and 0 for padding.
      sequence_ids: None, or `[batch, seq]`, which sequence of its row each
        token belongs to. Tokens attend to their own sequence alone.
    """

    def __init__(self, mask, sequence_ids=None):
        self.mask = mask
        self.sequence_ids = sequence_ids
        self.batch, self.length = ops.shape(mask)
        # Once, for all blocks.
        self._attention_bias = self._bias_of_queries(sequence_ids)

    def attention_bias(self, positions=None):
        """Returns what is added to the scores of every head, in float32.

        Args:
          positions: None for queries at all positions, or `[batch, picks]`.

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
        # Not bias[:, None, None]: TensorFlow Lite's converter cannot cut slices
        # of tensors of which two sizes are unknown.
        return ops.expand_dims(ops.expand_dims(bias, 1), 1)

    def to_rows(self, inputs):
        """`[batch, seq, size]` -> rows."""
        return ops.reshape(inputs, (-1, inputs.shape[-1]))

    def to_batch(self, rows):
        """Rows -> `[batch, seq, size]`; padding positions as they come."""
        return ops.reshape(rows, (self.batch, self.length, rows.shape[-1]))

    def restore(self, rows):
        """Rows -> `[batch, seq, size]` for the caller of the model."""
        return self.to_batch(rows)

    def restore_attentions(self, probs):
        """`[batch, heads, seq, seq]` with zeros where a query is padding."""
        mask = ops.cast(self.mask, probs.dtype)
        return probs * ops.expand_dims(ops.expand_dims(mask, 1), 3)

    def take(self, rows, positions):
        """Rows at `positions [batch, picks]` -> `[batch * picks, size]`.

        A position that is padding (an unused slot of the masked positions is
        position 0, which never is) gives a row without meaning.
        """
        positions = ops.cast(positions, "int32")
        picked = take_rows(self.to_batch(rows), positions, batch_dims=1)
        return ops.reshape(picked, (-1, rows.shape[-1]))


class PackedRows(PaddedRows):
    """Rows are the real tokens: `[sum of mask, size]`; TensorFlow only."""

    def __init__(self, mask, sequence_ids=None):
        super().__init__(mask, sequence_ids)
        if keras.backend.backend() != "tensorflow":
            raise ValueError(
                "packed=True needs shapes that depend on the mask, which the "
                f"backend {keras.backend.backend()!r} cannot compile; use "
                "packed=False"
            )
        flat = ops.reshape(ops.cast(mask, "int32"), (-1,))
        self._real = ops.cast(ops.nonzero(flat)[0], "int32")
        # Position -> row. Padding points at some row; attention masks it as a
        # key and drops it as a query.
        self._row_of = ops.maximum(ops.cumsum(flat) - 1, 0)

    def to_rows(self, inputs):
        """`[batch, seq, size]` -> rows of the real tokens."""
        return ops.take(super().to_rows(inputs), self._real, axis=0)

    def to_batch(self, rows):
        """Rows -> `[batch, seq, size]`; padding repeats other rows."""
        return super().to_batch(ops.take(rows, self._row_of, axis=0))

    def restore(self, rows):
        """Rows -> `[batch, seq, size]` with zeros on padding."""
        mask = ops.cast(self.mask, rows.dtype)
        return self.to_batch(rows) * mask[:, :, None]

    def take(self, rows, positions):
        """Rows at `positions [batch, picks]` -> `[batch * picks, size]`."""
        positions = ops.cast(positions, "int32")
        row_of = ops.reshape(self._row_of, (self.batch, self.length))
        picked = take_rows(row_of, positions, batch_dims=1)
        return ops.take(rows, ops.reshape(picked, (-1,)), axis=0)
