"""Base classes of fine-tuning losses."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from albert_tf.finetuning.features import LABELS
from albert_tf.layers.dropout import dropout_seeds
from albert_tf.models.base import AlbertModel
from albert_tf.text.packing import ENCODER_INPUTS
from albert_tf.training.loss import TOKENS, sparse_cross_entropy

Batch = Mapping[str, tf.Tensor]
Sums = dict[str, tf.Tensor]


class BatchLoss(abc.ABC):
    """A sum over a batch, divided by the weight of the whole global batch.

    See `training.loss.Loss` for the interface of the trainer.
    """

    INPUTS: tuple[str, ...] = ENCODER_INPUTS

    def inputs(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Returns the model's inputs; by default, those of `INPUTS`."""
        return {name: batch[name] for name in self.INPUTS}

    def weight(self, batch: Batch) -> tf.Tensor:
        """Returns the batch's share of the denominator, a float32 scalar.

        By default, it is the number of rows in the batch.
        """
        return tf.cast(tf.shape(batch["input_mask"])[0], tf.float32)

    def count(self, batch: Batch) -> tf.Tensor:
        """Returns the denominator of metrics; by default, the weight."""
        return self.weight(batch)

    @abc.abstractmethod
    def sums(self, batch: Batch, outputs: Any) -> tuple[tf.Tensor, Sums]:
        """Returns the sum of the losses, and sums of metrics by name."""

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
        inputs = self.inputs(batch)
        with dropout_seeds(seed):
            outputs = model(inputs, training=seed is not None)
        total, sums = self.sums(batch, outputs)
        count = self.count(batch)
        metrics = {name: tf.stack([x, count]) for name, x in sums.items()}
        mask = tf.cast(inputs["input_mask"], tf.float32)
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

        Labels are `[batch]` or `[batch, seq]`; outputs have one more axis. The
        losses and each metric are float32 with the shape of the labels.
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

    Class weights and label smoothing are those of PyTorch's `cross_entropy`:
    each class's term is multiplied by its weight, and the sum is divided by
    that of the labels' weights. The accuracy is not weighted.
    """

    def __init__(
        self,
        class_weights: Sequence[float] | None = None,
        label_smoothing: float = 0.0,
    ):
        self._class_weights = class_weights
        self._label_smoothing = label_smoothing

    def weight(self, batch):
        """Returns the sum of the weights of the labels' classes."""
        labels = batch[LABELS]
        weights = self.weights(labels)
        if self._class_weights is not None:
            weights *= self._of_classes(labels)
        return tf.reduce_sum(weights)

    def count(self, batch):
        """Returns the number of labels."""
        return super().weight(batch)

    def losses(self, labels, outputs):
        """Returns cross-entropies, and 1 where the prediction is right."""
        losses, hits = sparse_cross_entropy(labels, outputs)
        if self._class_weights is not None:
            losses *= self._of_classes(labels)
        if self._label_smoothing:
            terms = -tf.nn.log_softmax(outputs)
            if self._class_weights is not None:
                terms *= tf.constant(self._class_weights, tf.float32)
            even = tf.reduce_mean(terms, axis=-1)
            losses += self._label_smoothing * (even - losses)
        return losses, {"accuracy": hits}

    def _of_classes(self, labels: tf.Tensor) -> tf.Tensor:
        # A label that is ignored is negative; its weight does not matter.
        weights = tf.constant(self._class_weights, tf.float32)
        return tf.gather(weights, tf.maximum(labels, 0))
