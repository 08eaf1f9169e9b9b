"""Examples for Keras's `fit`, from batches of pretraining records."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from albert_tf.models.encoder import PACKING_INPUTS
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.objectives.objective import SEQUENCE_WEIGHTS

Tensors = dict[str, tf.Tensor]


def fit_examples(
    batch: Mapping[str, tf.Tensor], sentence_order: bool = True
) -> tuple[Tensors, Tensors, Tensors]:
    """Converts a batch to (inputs, labels, weights) for Keras's `fit`.

    Map a `pretraining_dataset` with it. With the reduction
    "mean_with_sample_weight", the loss is that of `MaskedLanguageModeling`:

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
    names = (*AlbertPretrainer.INPUTS, *PACKING_INPUTS)
    inputs = {name: batch[name] for name in names if name in batch}
    return inputs, labels, weights
