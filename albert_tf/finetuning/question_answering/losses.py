"""Losses of the two span heads."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from albert_tf.finetuning.losses import (
    Batch,
    ExampleMeanLoss,
    Sums,
    call_model,
    example_count,
    token_count,
)
from albert_tf.finetuning.question_answering.features import (
    END_POSITIONS,
    IS_IMPOSSIBLE,
    P_MASK,
    START_POSITIONS,
)
from albert_tf.models.base import ENCODER_INPUTS, AlbertModel
from albert_tf.training.loss import TOKENS, sparse_cross_entropy

# Logit of padding: its probability is 0 in float32.
_NO_LOGIT = -1e30


@dataclasses.dataclass(frozen=True)
class SpanLoss(ExampleMeanLoss):
    """Mean cross-entropy of start and end positions, for head "v1".

    The batch has the encoder's inputs, and `start_positions` and
    `end_positions`, int32 `[batch]`; both are 0 in windows without an answer.

    The original's softmax includes the padding up to 384 tokens. Here padding
    is masked, so that the loss does not depend on how much of it a batch has.
    """

    def __call__(
        self,
        model: AlbertModel,
        batch: Batch,
        normalizers: Batch,
        seed: tf.Tensor | None,
    ) -> tuple[tf.Tensor, Sums]:
        """Returns the batch's share of the loss, and the exact spans."""
        outputs = call_model(model, batch, ENCODER_INPUTS, seed)
        real = tf.cast(batch["input_mask"], tf.bool)
        start_logits, end_logits = (
            tf.where(real, outputs[name], _NO_LOGIT)
            for name in ("start_logits", "end_logits")
        )
        start_nll, start_hits = sparse_cross_entropy(
            batch[START_POSITIONS], start_logits
        )
        end_nll, end_hits = sparse_cross_entropy(
            batch[END_POSITIONS], end_logits
        )
        total = tf.reduce_sum(start_nll + end_nll) / 2
        exact = tf.reduce_sum(start_hits * end_hits)
        metrics = {
            "exact_spans": tf.stack([exact, example_count(batch)]),
            TOKENS: token_count(batch),
        }
        return total / normalizers["examples"], metrics


@dataclasses.dataclass(frozen=True)
class JointSpanLoss(ExampleMeanLoss):
    """The original's loss for SQuAD 2.0, for head "joint".

    Half the sum of three means: the negative log-likelihood of the start, that
    of the end given the true start, and the sigmoid cross-entropy of
    `is_impossible`. The batch has what `SpanLoss` takes, `p_mask`
    `[batch, seq]` and `is_impossible`, 0 or 1, `[batch]`.
    """

    def __call__(
        self,
        model: AlbertModel,
        batch: Batch,
        normalizers: Batch,
        seed: tf.Tensor | None,
    ) -> tuple[tf.Tensor, Sums]:
        """Returns the batch's share of the loss, and its three terms."""
        names = (*ENCODER_INPUTS, P_MASK, START_POSITIONS)
        outputs = call_model(model, batch, names, seed)
        impossible = tf.cast(batch[IS_IMPOSSIBLE], tf.float32)
        sums = {
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
        sums = {name: tf.reduce_sum(value) for name, value in sums.items()}
        examples = example_count(batch)
        metrics = {n: tf.stack([total, examples]) for n, total in sums.items()}
        metrics[TOKENS] = token_count(batch)
        return 0.5 * sum(sums.values()) / normalizers["examples"], metrics
