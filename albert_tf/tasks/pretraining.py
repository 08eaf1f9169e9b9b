"""Masked language model + sentence-order prediction, as the loop sees it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from albert_tf.layers.dropout import dropout_seeds
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.tasks.cross_entropy import sparse_cross_entropy
from albert_tf.training.task import TOKENS

# The original's guard for a batch without predictions.
_EPSILON = 1e-5


@dataclasses.dataclass(frozen=True)
class PretrainingTask:
    """Loss and metrics of ALBERT's pretraining (paper, section 3.1).

    loss = sum(weight * nll) / (sum(weight) + 1e-5) over the masked tokens of
    the GLOBAL batch + mean cross-entropy of the sentence order, unweighted.
    The original divides by the weights of each replica's batch instead, so
    there the result depends on how many replicas share a batch.

    Attributes:
      sentence_order: whether the sentence-order loss is part of the loss;
        False for data made with `sentence_order="none"`.
    """

    sentence_order: bool = True

    def normalizers(
        self, batch: Mapping[str, tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        """Returns the sums that the loss is divided by, as float32 scalars."""
        size = tf.shape(batch["sentence_order_labels"])[0]
        return {
            "predictions": tf.reduce_sum(batch["masked_lm_weights"]),
            "examples": tf.cast(size, tf.float32),
        }

    def loss(
        self,
        model: AlbertPretrainer,
        batch: Mapping[str, tf.Tensor],
        normalizers: Mapping[str, tf.Tensor],
        seed: tf.Tensor | None,
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """Returns one micro-batch's share of the loss, and its metrics.

        Args:
          model: the pretrainer.
          batch: a batch of `albert_tf.data.input_pipeline`.
          normalizers: sums over the global batch of what `normalizers` gives.
          seed: int `[2]` for dropout, or None in evaluation.

        Returns:
          A float32 scalar; adding the shares of all micro-batches and replicas
          gives the loss. And metric name -> float32 `[2]`: weighted sum and
          weight; `"tokens"` counts the real tokens.
        """
        with dropout_seeds(seed):
            outputs = model(
                {name: batch[name] for name in model.INPUTS},
                training=seed is not None,
            )
        mask = tf.cast(batch["input_mask"], tf.float32)
        weights = batch["masked_lm_weights"]
        mlm_nll, mlm_hits = sparse_cross_entropy(
            batch["masked_lm_ids"], outputs["mlm_logits"]
        )
        mlm_sum = tf.reduce_sum(weights * mlm_nll)
        predictions = tf.reduce_sum(weights)
        loss = mlm_sum / (normalizers["predictions"] + _EPSILON)
        metrics = {
            "mlm_loss": tf.stack([mlm_sum, predictions]),
            "mlm_accuracy": tf.stack(
                [tf.reduce_sum(weights * mlm_hits), predictions]
            ),
            TOKENS: tf.stack([tf.reduce_sum(mask), 1.0]),
        }
        if self.sentence_order:
            sop_nll, sop_hits = sparse_cross_entropy(
                batch["sentence_order_labels"], outputs["sop_logits"]
            )
            examples = tf.cast(tf.shape(sop_nll)[0], tf.float32)
            loss += tf.reduce_sum(sop_nll) / normalizers["examples"]
            metrics["sop_loss"] = tf.stack([tf.reduce_sum(sop_nll), examples])
            metrics["sop_accuracy"] = tf.stack(
                [tf.reduce_sum(sop_hits), examples]
            )
        return loss, metrics


def pretraining_task(manifest: Mapping[str, Any] | None) -> PretrainingTask:
    """Returns the task that fits the records: without sentence order or with.

    Records without a manifest are taken to have sentence pairs, as Google's do.
    """
    if manifest is None:
        return PretrainingTask()
    order = manifest["settings"]["sentence_order"]
    return PretrainingTask(sentence_order=order != "none")
