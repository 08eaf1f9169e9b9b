"""Pooling of token states."""

from __future__ import annotations

from keras import ops


def pair_features(first, second):
    """Returns the features of a pair of vectors: u, v, |u - v| and u * v.

    They are those of InferSent (arXiv:1705.02364).

    Args:
      first: u, `[batch, hidden]`.
      second: v, `[batch, hidden]`.

    Returns:
      `[batch, 4 * hidden]`.
    """
    difference = ops.abs(first - second)
    return ops.concatenate([first, second, difference, first * second], axis=-1)


def segment_masks(mask, types):
    """Returns masks of a row's two texts, without special tokens.

    A row is `[CLS] first [SEP] second [SEP]`, or without a second text, whose
    mask is then 0.

    Args:
      mask: 1 for tokens, 0 for padding, `[batch, seq]`.
      types: segment of each token, 0 or 1, `[batch, seq]`.

    Returns:
      Two masks, float32 `[batch, seq]`.
    """
    is_token = ops.cast(mask, "float32")
    is_second = ops.cast(types, "float32") * is_token
    is_first = is_token - is_second
    masks = []
    for segment in (is_first, is_second):
        # 1 where the next token is of the same segment: not at [SEP].
        following = ops.pad(segment[:, 1:], [[0, 0], [0, 1]])
        masks.append(segment * following)
    first, second = masks
    after_cls = ops.pad(ops.ones_like(first[:, 1:]), [[0, 0], [1, 0]])
    return first * after_cls, second


def mean_pooling(states, mask, weights=None):
    """Returns the mean of token states where a mask is 1.

    Args:
      states: token states `[batch, seq, hidden]`.
      mask: 1 for the tokens to average, else 0, `[batch, seq]`.
      weights: positive weights of the tokens, `[batch, seq]`; None for equal
        ones.

    Returns:
      float32 `[batch, hidden]`; zeros for rows whose mask has no 1.
    """
    shares = ops.expand_dims(ops.cast(mask, "float32"), -1)
    if weights is not None:
        shares *= ops.expand_dims(ops.cast(weights, "float32"), -1)
    total = ops.sum(ops.cast(states, "float32") * shares, axis=1)
    norm = ops.sum(shares, axis=1)
    if weights is None:
        return total / ops.maximum(norm, 1.0)
    return total / ops.where(norm > 0, norm, 1.0)
