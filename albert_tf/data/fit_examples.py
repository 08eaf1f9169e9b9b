"""Batches of pretraining records as Keras's `fit` takes them."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

# The inputs of a pretrainer.
_INPUTS = (
    "input_word_ids",
    "input_mask",
    "input_type_ids",
    "masked_lm_positions",
)

Tensors = dict[str, tf.Tensor]


def fit_examples(
    batch: Mapping[str, tf.Tensor], sentence_order: bool = True
) -> tuple[Tensors, Tensors, Tensors]:
    """Returns inputs, labels and weights: what `fit` and `evaluate` take.

    Give it to `map` of a `pretraining_dataset`. With losses whose reduction is
    "mean_with_sample_weight", the loss is that of `PretrainingTask`:

        loss = keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="mean_with_sample_weight"
        )
        model.compile(
            optimizer, loss={"mlm_logits": loss, "sop_logits": loss}
        )

    Args:
      batch: a batch of `pretraining_dataset`.
      sentence_order: whether there are labels for `sop_logits`; False for
        records and pretrainers without sentence order.

    Returns:
      The inputs of `AlbertPretrainer`; labels by its outputs' names, int32
      `mlm_logits` `[batch, predictions]` and `sop_logits` `[batch]`; and their
      float32 weights in the same shapes.
    """
    labels = {"mlm_logits": batch["masked_lm_ids"]}
    weights = {"mlm_logits": batch["masked_lm_weights"]}
    if sentence_order:
        orders = batch["sentence_order_labels"]
        labels["sop_logits"] = orders
        weights["sop_logits"] = tf.ones_like(orders, tf.float32)
    return {name: batch[name] for name in _INPUTS}, labels, weights
