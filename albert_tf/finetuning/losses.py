"""Base classes of the losses of fine-tuning."""

from __future__ import annotations

import abc
from collections.abc import Mapping

import tensorflow as tf

from albert_tf.finetuning.features import INPUTS, LABELS
from albert_tf.layers.dropout import dropout_seeds
from albert_tf.models.base import AlbertModel
from albert_tf.training.loss import TOKENS, sparse_cross_entropy

Batch = Mapping[str, tf.Tensor]
Sums = dict[str, tf.Tensor]


class MeanLoss(abc.ABC):
    """A weighted mean of losses and metrics of the labels of a batch.

    The batch has the encoder's inputs and `labels`. Subclasses compute the
    losses; see `training.loss.Loss` for the interface of the trainer.
    """

    @abc.abstractmethod
    def losses(
        self, labels: tf.Tensor, outputs: tf.Tensor
    ) -> tuple[tf.Tensor, Sums]:
        """Returns the losses of labels, and metrics by name.

        Args:
          labels: the labels, `[batch]` or `[batch, seq]`.
          outputs: the model's outputs, shaped like the labels but for their
            last axis.

        Returns:
          The losses and each metric, float32 with the shape of `labels`.
        """

    def weights(self, labels: tf.Tensor) -> tf.Tensor:
        """Returns the weight of each label, float32; 1 by default."""
        return tf.ones(tf.shape(labels), tf.float32)

    def normalizers(self, batch: Batch) -> Sums:
        """Returns the sum of the weights; see `training.loss.Loss`."""
        return {"weights": tf.reduce_sum(self.weights(batch[LABELS]))}

    def __call__(
        self,
        model: AlbertModel,
        batch: Batch,
        normalizers: Batch,
        seed: tf.Tensor | None,
    ) -> tuple[tf.Tensor, Sums]:
        """Returns the batch's share of the loss, and the metrics."""
        labels = batch[LABELS]
        weights = self.weights(labels)
        losses, values = self.losses(
            labels, call_model(model, batch, INPUTS, seed)
        )
        total, weight = tf.reduce_sum(weights * losses), tf.reduce_sum(weights)
        metrics = {
            name: tf.stack([tf.reduce_sum(weights * x), weight])
            for name, x in values.items()
        }
        # A batch without any label has the loss 0.
        loss = tf.math.divide_no_nan(total, normalizers["weights"])
        return loss, {**metrics, TOKENS: token_count(batch)}


class CrossEntropyLoss(MeanLoss):
    """Cross-entropy of class numbers, and their accuracy.

    Labels are int32; the model's outputs are logits `[..., classes]`.
    """

    def losses(self, labels, outputs):
        """Returns cross-entropies and hits; see the base class."""
        losses, hits = sparse_cross_entropy(labels, outputs)
        return losses, {"accuracy": hits}


def call_model(
    model: AlbertModel,
    batch: Batch,
    names: tuple[str, ...],
    seed: tf.Tensor | None,
):
    """Calls a model on some tensors of a batch.

    Args:
      model: any model.
      batch: a batch; its labels are not passed on.
      names: the model's inputs.
      seed: int32 `[2]` for dropout; None: without dropout.
    """
    with dropout_seeds(seed):
        return model(
            {name: batch[name] for name in names}, training=seed is not None
        )


def example_count(batch: Batch) -> tf.Tensor:
    """Returns the examples of a batch, a float32 scalar."""
    return tf.cast(tf.shape(batch["input_mask"])[0], tf.float32)


def token_count(batch: Batch) -> tf.Tensor:
    """Returns the metric that counts real tokens; see `TOKENS`."""
    mask = tf.cast(batch["input_mask"], tf.float32)
    return tf.stack([tf.reduce_sum(mask), 1.0])
