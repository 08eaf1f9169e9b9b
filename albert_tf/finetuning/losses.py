"""Base classes of fine-tuning losses."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from albert_tf.finetuning.features import INPUTS, LABELS
from albert_tf.layers.dropout import dropout_seeds
from albert_tf.models.base import AlbertModel
from albert_tf.training.loss import TOKENS, sparse_cross_entropy

Batch = Mapping[str, tf.Tensor]
Sums = dict[str, tf.Tensor]


class BatchLoss(abc.ABC):
    """A sum over a batch, divided by the weight of the whole global batch.

    See `training.loss.Loss` for the interface of the trainer.
    """

    INPUTS: tuple[str, ...] = INPUTS

    @abc.abstractmethod
    def weight(self, batch: Batch) -> tf.Tensor:
        """Returns the batch's share of the denominator, a float32 scalar."""

    @abc.abstractmethod
    def sums(self, batch: Batch, outputs: Any) -> tuple[tf.Tensor, Sums]:
        """Returns the sum of the losses, and sums of metrics by name.

        Args:
          batch: a batch of features with labels.
          outputs: the model's outputs.
        """

    def normalizers(self, batch: Batch) -> Sums:
        """Returns the weight of the batch; see `training.loss.Loss`."""
        return {"weight": self.weight(batch)}

    def __call__(
        self,
        model: AlbertModel,
        batch: Batch,
        normalizers: Batch,
        seed: tf.Tensor | None,
    ) -> tuple[tf.Tensor, Sums]:
        """Returns the batch's share of the loss, and the metrics."""
        inputs = {name: batch[name] for name in self.INPUTS}
        with dropout_seeds(seed):
            outputs = model(inputs, training=seed is not None)
        total, sums = self.sums(batch, outputs)
        weight = self.weight(batch)
        metrics = {name: tf.stack([x, weight]) for name, x in sums.items()}
        mask = tf.cast(batch["input_mask"], tf.float32)
        metrics[TOKENS] = tf.stack([tf.reduce_sum(mask), 1.0])
        # A batch without labels has a loss of 0.
        return tf.math.divide_no_nan(total, normalizers["weight"]), metrics


class MeanLoss(BatchLoss):
    """A weighted mean of the losses of labels, and metrics.

    The batch has the encoder's inputs and `labels`. Subclasses compute the
    losses.
    """

    @abc.abstractmethod
    def losses(
        self, labels: tf.Tensor, outputs: tf.Tensor
    ) -> tuple[tf.Tensor, Sums]:
        """Returns the losses of labels, and metrics by name.

        Args:
          labels: labels, `[batch]` or `[batch, seq]`.
          outputs: the model's outputs, with the shape of the labels and one
            more axis.

        Returns:
          The losses and each metric, float32 with the shape of `labels`.
        """

    def weights(self, labels: tf.Tensor) -> tf.Tensor:
        """Returns the weight of each label, float32; 1 by default."""
        return tf.ones(tf.shape(labels), tf.float32)

    def weight(self, batch):
        """Returns the sum of the weights."""
        return tf.reduce_sum(self.weights(batch[LABELS]))

    def sums(self, batch, outputs):
        """Returns weighted sums of the losses and metrics."""
        labels = batch[LABELS]
        weights = self.weights(labels)
        losses, metrics = self.losses(labels, outputs)
        return tf.reduce_sum(weights * losses), {
            name: tf.reduce_sum(weights * x) for name, x in metrics.items()
        }


class CrossEntropyLoss(MeanLoss):
    """Cross-entropy of class indices, and accuracy.

    Labels are int32; the model's outputs are logits `[..., classes]`.
    """

    def losses(self, labels, outputs):
        """Returns cross-entropies, and 1 where the prediction is right."""
        losses, hits = sparse_cross_entropy(labels, outputs)
        return losses, {"accuracy": hits}
