"""Losses and metrics of labels and numbers, as the training loop sees them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import tensorflow as tf

from albert_tf.layers.dropout import dropout_seeds
from albert_tf.models.base import AlbertModel
from albert_tf.models.inputs import ENCODER_INPUTS
from albert_tf.tasks.cross_entropy import sparse_cross_entropy
from albert_tf.training.task import TOKENS

LABELS = "labels"

Batch = Mapping[str, tf.Tensor]
Sums = dict[str, tf.Tensor]


class ExampleMeanTask:
    """A loss that is a mean over the examples, or windows, of a batch."""

    def normalizers(self, batch: Batch) -> Sums:
        """Returns the number of examples; see `training.task.Task`."""
        return {"examples": example_count(batch)}


@dataclasses.dataclass(frozen=True)
class LabelTask(ExampleMeanTask):
    """Mean cross-entropy of one label an example: classes or choices.

    The batch has the encoder's inputs, `[batch, seq]` or, for choices,
    `[batch, choices, seq]`, and `labels`, int32 `[batch]`. The model gives
    logits `[batch, classes or choices]`.
    """

    def loss(
        self,
        model: AlbertModel,
        batch: Batch,
        normalizers: Batch,
        seed: tf.Tensor | None,
    ) -> tuple[tf.Tensor, Sums]:
        """Returns the batch's share of the loss, and the accuracy."""
        nll, hits = sparse_cross_entropy(
            batch[LABELS], call_model(model, batch, ENCODER_INPUTS, seed)
        )
        total = tf.reduce_sum(nll)
        metrics = {
            "accuracy": tf.stack([tf.reduce_sum(hits), example_count(batch)]),
            TOKENS: token_count(batch),
        }
        return total / normalizers["examples"], metrics


@dataclasses.dataclass(frozen=True)
class NumberTask(ExampleMeanTask):
    """Mean squared error of one number an example.

    The batch has the encoder's inputs and `labels`, float32 `[batch]`; the
    model gives `[batch, 1]`.
    """

    def loss(
        self,
        model: AlbertModel,
        batch: Batch,
        normalizers: Batch,
        seed: tf.Tensor | None,
    ) -> tuple[tf.Tensor, Sums]:
        """Returns the batch's share of the loss, and the mean error."""
        outputs = call_model(model, batch, ENCODER_INPUTS, seed)
        errors = outputs[:, 0] - batch[LABELS]
        total = tf.reduce_sum(tf.square(errors))
        absolute = tf.reduce_sum(tf.abs(errors))
        metrics = {
            "absolute_error": tf.stack([absolute, example_count(batch)]),
            TOKENS: token_count(batch),
        }
        return total / normalizers["examples"], metrics


@dataclasses.dataclass(frozen=True)
class TokenLabelTask:
    """Mean cross-entropy of the tokens that have a label.

    The batch has the encoder's inputs and `labels`, int32 `[batch, seq]`, -1
    where a token has none; the model gives logits `[batch, seq, classes]`.
    """

    def normalizers(self, batch: Batch) -> Sums:
        """Returns the number of labels; see `training.task.Task`."""
        return {"labels": tf.reduce_sum(_labelled(batch))}

    def loss(
        self,
        model: AlbertModel,
        batch: Batch,
        normalizers: Batch,
        seed: tf.Tensor | None,
    ) -> tuple[tf.Tensor, Sums]:
        """Returns the batch's share of the loss, and the accuracy."""
        labelled = _labelled(batch)
        nll, hits = sparse_cross_entropy(
            tf.maximum(batch[LABELS], 0),
            call_model(model, batch, ENCODER_INPUTS, seed),
        )
        total = tf.reduce_sum(labelled * nll)
        right = tf.reduce_sum(labelled * hits)
        metrics = {
            "accuracy": tf.stack([right, tf.reduce_sum(labelled)]),
            TOKENS: token_count(batch),
        }
        # A batch of rows without a labelled word has the loss 0.
        return tf.math.divide_no_nan(total, normalizers["labels"]), metrics


def call_model(
    model: AlbertModel,
    batch: Batch,
    names: tuple[str, ...],
    seed: tf.Tensor | None,
):
    """Calls a model on some tensors of a batch.

    Args:
      model: any model.
      batch: a batch; its labels are not the model's business.
      names: the model's inputs.
      seed: int32 `[2]` for dropout; None: there is none.
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


def _labelled(batch: Batch) -> tf.Tensor:
    return tf.cast(batch[LABELS] >= 0, tf.float32)
