"""Losses of the two ways to find the answer of a question in a text."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from albert_tf.models.base import AlbertModel
from albert_tf.models.inputs import ENCODER_INPUTS, P_MASK, START_POSITIONS
from albert_tf.tasks.cross_entropy import sparse_cross_entropy
from albert_tf.tasks.finetuning.losses import (
    Batch,
    ExampleMeanTask,
    Sums,
    call_model,
    example_count,
    token_count,
)
from albert_tf.training.task import TOKENS

END_POSITIONS = "end_positions"
IS_IMPOSSIBLE = "is_impossible"

# Its probability is 0 in float32, whatever the others are.
_NO_LOGIT = -1e30


@dataclasses.dataclass(frozen=True)
class SpanTask(ExampleMeanTask):
    """Mean of the cross-entropies of start and end, over all tokens of a row.

    The original's probabilities are over its padding, too, to 384 tokens; here
    padding has none, so that it does not matter how much of it a batch has.

    The batch has the encoder's inputs and, int32 `[batch]`, `start_positions`
    and `end_positions`, both 0 where a window has no answer. For head "v1" of
    `AlbertSpanLabeler`.
    """

    def loss(
        self,
        model: AlbertModel,
        batch: Batch,
        normalizers: Batch,
        seed: tf.Tensor | None,
    ) -> tuple[tf.Tensor, Sums]:
        """Returns the batch's share of the loss, and of exact spans."""
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
class JointSpanTask(ExampleMeanTask):
    """The original's loss for SQuAD 2.0.

    0.5 (start + end) + 0.5 answerability: means of the negative log-likelihood
    of the start, of the end given the true start, and of the sigmoid
    cross-entropy of `is_impossible`. Windows without an answer have start and
    end 0, `[CLS]`. The batch has what `SpanTask` takes, `p_mask` `[batch, seq]`
    and `is_impossible`, 0 or 1, `[batch]`. For head "joint".
    """

    def loss(
        self,
        model: AlbertModel,
        batch: Batch,
        normalizers: Batch,
        seed: tf.Tensor | None,
    ) -> tuple[tf.Tensor, Sums]:
        """Returns the batch's share of the loss, and of its parts."""
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
