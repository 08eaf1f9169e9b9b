"""Loss of masked language modeling and sentence-order prediction."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import tensorflow as tf

from albert_tf.layers.dropout import dropout_seeds
from albert_tf.models.encoder import PACKING_INPUTS
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.training.loss import TOKENS, WEIGHTS, sparse_cross_entropy

# Added to the denominator by the original, for batches without predictions.
_EPSILON = 1e-5

# Key of the weights of `sentence_order_labels`, float32 in their shape: 0.0 for
# sequences of one segment, which have no order, and for missing sequences of
# packed rows.
SEQUENCE_WEIGHTS = "sentence_order_weights"


@dataclasses.dataclass(frozen=True)
class PretrainingLoss:
    """Loss and metrics of ALBERT's pretraining (paper, section 3.1).

    loss = sum(weight * nll) / (sum(weight) + 1e-5) over the masked tokens of
    the GLOBAL batch + mean cross-entropy of the sentence order. The original
    divides by the weights of each replica's batch instead, so its result
    depends on the number of replicas.

    In packed rows, each sequence is an example: the means do not depend on how
    sequences are packed. Sequences without a label (`SEQUENCE_WEIGHTS`) do not
    count; the loss of a batch without any label is that of the masked tokens.

    Attributes:
      pair_task: the task of sentence pairs, `sentence_order` of the data: "sop"
        or "nsp", the prefix of the metrics, or "none" for no such loss.
    """

    pair_task: str = "sop"

    def normalizers(
        self, batch: Mapping[str, tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        """Returns the denominators of the loss, float32 scalars."""
        return {
            "predictions": tf.reduce_sum(_prediction_weights(batch)),
            "examples": tf.reduce_sum(_example_weights(batch)),
        }

    def __call__(
        self,
        model: AlbertPretrainer,
        batch: Mapping[str, tf.Tensor],
        normalizers: Mapping[str, tf.Tensor],
        seed: tf.Tensor | None,
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """Returns what a micro-batch contributes to loss and metrics.

        Args:
          model: the pretrainer.
          batch: a batch of `pretraining_dataset`.
          normalizers: `normalizers` of the global batch.
          seed: int `[2]` for dropout, or None in evaluation.

        Returns:
          The loss, a float32 scalar, and the metrics by name, float32 `[2]`:
          weighted sum and weight; `"tokens"` counts the real tokens. Both are
          summed over all micro-batches and replicas.
        """
        with dropout_seeds(seed):
            outputs = model(_inputs(batch), training=seed is not None)
        mask = tf.cast(batch["input_mask"], tf.float32)
        example_weights = _example_weights(batch)
        weights = _prediction_weights(batch)
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
        if self.pair_task != "none":
            sop_nll, sop_hits = sparse_cross_entropy(
                batch["sentence_order_labels"], outputs["sop_logits"]
            )
            examples = tf.reduce_sum(example_weights)
            sop_sum = tf.reduce_sum(example_weights * sop_nll)
            loss += tf.math.divide_no_nan(sop_sum, normalizers["examples"])
            metrics[f"{self.pair_task}_loss"] = tf.stack([sop_sum, examples])
            metrics[f"{self.pair_task}_accuracy"] = tf.stack(
                [tf.reduce_sum(example_weights * sop_hits), examples]
            )
        return loss, metrics


Tensors = dict[str, tf.Tensor]


def _inputs(batch: Mapping[str, tf.Tensor]) -> Tensors:
    """Returns the inputs of `AlbertPretrainer`."""
    names = (*AlbertPretrainer.INPUTS, *PACKING_INPUTS)
    return {name: batch[name] for name in names if name in batch}


def _row_weights(batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """Returns the row weights, float32 `[batch]`; see `WEIGHTS`."""
    size = tf.shape(batch["input_mask"])[:1]
    return batch.get(WEIGHTS, tf.ones(size))


def _example_weights(batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """Returns the weights of `sentence_order_labels`, in their shape."""
    rows = _row_weights(batch)
    weights = batch.get(SEQUENCE_WEIGHTS)
    if weights is None:
        return rows
    return weights * (rows if len(weights.shape) == 1 else rows[:, tf.newaxis])


def _prediction_weights(batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    return batch["masked_lm_weights"] * _row_weights(batch)[:, tf.newaxis]


def fit_examples(
    batch: Mapping[str, tf.Tensor], sentence_order: bool = True
) -> tuple[Tensors, Tensors, Tensors]:
    """Converts a batch to (inputs, labels, weights) for Keras's `fit`.

    Map a `pretraining_dataset` with it. With the reduction
    "mean_with_sample_weight", the loss is that of `PretrainingLoss`:

        loss = keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="mean_with_sample_weight"
        )
        model.compile(
            optimizer, loss={"mlm_logits": loss, "sop_logits": loss}
        )

    Args:
      batch: a batch of `pretraining_dataset`.
      sentence_order: whether to include labels for `sop_logits`; False for
        records and models without sentence order.

    Returns:
      The inputs of `AlbertPretrainer`; the labels by output name, int32
      `mlm_logits` `[batch, predictions]` and `sop_logits` `[batch]`, or
      `[batch, sequences]` for packed rows; and the float32 weights in the same
      shapes.
    """
    labels = {"mlm_logits": batch["masked_lm_ids"]}
    weights = {"mlm_logits": batch["masked_lm_weights"]}
    if sentence_order:
        orders = batch["sentence_order_labels"]
        labels["sop_logits"] = orders
        weights["sop_logits"] = batch.get(
            SEQUENCE_WEIGHTS, tf.ones_like(orders, tf.float32)
        )
    return _inputs(batch), labels, weights
