"""Losses of the two question answering heads."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.finetuning.losses import BatchLoss
from albert_tf.finetuning.question_answering.features import (
    END_POSITIONS,
    IS_IMPOSSIBLE,
    P_MASK,
    START_POSITIONS,
)
from albert_tf.models.base import ENCODER_INPUTS
from albert_tf.training.loss import sparse_cross_entropy

# Logit of padding: its probability is 0 in float32.
_NO_LOGIT = -1e30


class _WindowLoss(BatchLoss):
    """A mean over the windows of a batch."""

    def weight(self, batch):
        """Returns the number of windows."""
        return tf.cast(tf.shape(batch["input_mask"])[0], tf.float32)


class SpanLoss(_WindowLoss):
    """Mean cross-entropy of start and end positions, for head "v1".

    The batch has the encoder's inputs, and `start_positions` and
    `end_positions`, int32 `[batch]`; both are 0 in windows without an answer.

    The original's softmax includes the padding up to 384 tokens. Here padding
    is masked, so that the loss does not depend on the amount of padding.
    """

    def count(self, batch):
        """Returns the number of windows with an answer.

        Most windows have none, which is soon learned, and says little.
        """
        return tf.reduce_sum(self._has_answer(batch))

    def _has_answer(self, batch):
        return tf.cast(batch[START_POSITIONS] > 0, tf.float32)

    def sums(self, batch, outputs):
        """Returns the loss, and the number of answers found exactly."""
        is_token = tf.cast(batch["input_mask"], tf.bool)
        (start_nll, start_hits), (end_nll, end_hits) = (
            sparse_cross_entropy(
                batch[positions], tf.where(is_token, outputs[name], _NO_LOGIT)
            )
            for positions, name in (
                (START_POSITIONS, "start_logits"),
                (END_POSITIONS, "end_logits"),
            )
        )
        exact = start_hits * end_hits * self._has_answer(batch)
        return tf.reduce_sum(start_nll + end_nll) / 2, {
            "exact_spans": tf.reduce_sum(exact)
        }


class JointSpanLoss(_WindowLoss):
    """The original's loss for SQuAD 2.0, for head "joint".

    Half the sum of three means: the negative log-likelihood of the start, that
    of the end given the true start, and the sigmoid cross-entropy of
    `is_impossible`. The batch has the inputs of `SpanLoss`, `p_mask`
    `[batch, seq]`, and `is_impossible`, 0 or 1, `[batch]`.
    """

    INPUTS = (*ENCODER_INPUTS, P_MASK, START_POSITIONS)

    def sums(self, batch, outputs):
        """Returns the loss, and its three terms."""
        impossible = tf.cast(batch[IS_IMPOSSIBLE], tf.float32)
        losses = {
            "start_loss": -tf.gather(
                outputs["start_log_probs"], batch[START_POSITIONS], batch_dims=1
            ),
            "end_loss": -tf.gather(
                outputs["end_log_probs"], batch[END_POSITIONS], batch_dims=1
            ),
            "answerable_loss": tf.nn.sigmoid_cross_entropy_with_logits(
                impossible, outputs["is_impossible_logits"]
            ),
        }
        sums = {name: tf.reduce_sum(x) for name, x in losses.items()}
        return 0.5 * sum(sums.values()), sums
