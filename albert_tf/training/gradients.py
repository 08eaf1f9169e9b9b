"""Gradient norms and clipping on dense gradients."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

Gradient = tf.Tensor | tf.IndexedSlices | None


def densify(gradients: Sequence[Gradient]) -> list[tf.Tensor | None]:
    """Returns dense gradients: slices of the same row are added up.

    The norm of a lookup's gradient would otherwise be that of its unsummed
    slices, which is what the original clips by off TPU; on TPU it looks up
    with one-hot products, whose gradient is this one.
    """
    return [
        None if gradient is None else tf.convert_to_tensor(gradient)
        for gradient in gradients
    ]


def global_norm(gradients: Sequence[Gradient]) -> tf.Tensor:
    """Returns the Euclidean norm over all gradients, a float32 scalar."""
    return tf.linalg.global_norm(densify(gradients))


def clip_by_global_norm(
    gradients: Sequence[Gradient], clip_norm: float
) -> tuple[list[tf.Tensor | None], tf.Tensor]:
    """Scales all gradients down together so that their norm is bounded.

    Args:
      gradients: one entry a variable; None where there is no gradient.
      clip_norm: the largest norm; 0 leaves the gradients as they are.

    Returns:
      The dense clipped gradients, and the norm before clipping. A norm that is
      not finite makes every gradient NaN.
    """
    dense = densify(gradients)
    norm = tf.linalg.global_norm(dense)
    if clip_norm:
        dense, _ = tf.clip_by_global_norm(dense, clip_norm, use_norm=norm)
    return dense, norm
