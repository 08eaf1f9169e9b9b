"""Cross-entropy over a large vocabulary."""

from __future__ import annotations

import tensorflow as tf


def sparse_cross_entropy(
    labels: tf.Tensor, logits: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns negative log-likelihoods, and where the best guess is right.

    What `tf.nn.sparse_softmax_cross_entropy_with_logits` computes, in less than
    half of its time on CPUs: the normalizer comes from TensorFlow's softmax,
    which is vectorized, and from the largest logit, which is known anyway.

    Args:
      labels: integers `[...]` in [0, classes).
      logits: float32 `[..., classes]`.

    Returns:
      Two float32 tensors `[...]`; the second is 1.0 where the largest logit is
      the label's.
    """
    shape, classes = tf.shape(labels), tf.shape(logits)[-1]
    nll, best = _cross_entropy(
        tf.reshape(logits, [-1, classes]), tf.reshape(labels, [-1])
    )
    nll, best = (tf.reshape(x, shape) for x in (nll, best))
    return nll, tf.cast(tf.equal(best, labels), tf.float32)


@tf.custom_gradient
def _cross_entropy(logits, labels):
    probabilities = tf.nn.softmax(logits)
    best = tf.argmax(logits, axis=-1, output_type=labels.dtype)

    def at(values, index):
        return tf.gather(values, index, batch_dims=1)

    # The largest probability is at least 1 / classes: its logarithm is finite.
    normalizer = at(logits, best) - tf.math.log(at(probabilities, best))

    def gradient(upstream, _):
        hits = tf.one_hot(labels, tf.shape(logits)[-1])
        return (probabilities - hits) * upstream[:, tf.newaxis], None

    return (normalizer - at(logits, labels), best), gradient
