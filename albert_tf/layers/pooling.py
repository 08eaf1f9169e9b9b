"""Pooling of token states."""

from __future__ import annotations

from keras import ops


def mean_pooling(states, mask):
    """Returns the mean of token states where a mask is 1.

    Args:
      states: token states `[batch, seq, hidden]`.
      mask: 1 for the tokens to average, else 0, `[batch, seq]`.

    Returns:
      float32 `[batch, hidden]`; zeros for rows whose mask has no 1.
    """
    weights = ops.cast(mask, "float32")[:, :, None]
    total = ops.sum(ops.cast(states, "float32") * weights, axis=1)
    return total / ops.maximum(ops.sum(weights, axis=1), 1.0)
