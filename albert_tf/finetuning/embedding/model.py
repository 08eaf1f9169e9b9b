"""Model and loss for sentence embeddings."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.finetuning.embedding.examples import EMBEDDING
from albert_tf.finetuning.embedding.features import TEXT_HASHES
from albert_tf.finetuning.features import LABELS
from albert_tf.finetuning.fit_texts import as_lists
from albert_tf.finetuning.losses import BatchLoss
from albert_tf.finetuning.task_model import TaskModel
from albert_tf.models.inputs import named_inputs
from albert_tf.models.model_graph import Tensors
from albert_tf.text.packing import ENCODER_INPUTS
from albert_tf.training.loss import sparse_cross_entropy

# Logit of a candidate that is not a negative. Its probability is 0.
_EXCLUDED = -1e9


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertSentenceEncoder(TaskModel):
    """ALBERT with mean pooling: embeddings of sentences.

    Inputs are the encoder's dict. The output is the mean of the last layer over
    all tokens, `[batch, hidden]`, float32 in any precision. Inputs `[batch,
    texts, seq]`, such as pairs, have outputs `[batch, texts, hidden]`. The
    encoder has no pooler.

    `fit`, `evaluate` and `predict` also take strings, see `TaskModel`. Pairs
    `(first, second)` are trained with `cosine_loss` on the cosines that they
    should have.

    Args:
      config: the architecture.
      packed: see `AlbertEncoder`.
      rematerialize: see `AlbertEncoder`.
      **kwargs: `name`, `dtype` and `trainable` of `keras.Model`.
    """

    TASK_TYPES = ("embedding",)
    TASK = EMBEDDING
    NUM_TEXTS = (1, 2)
    ENCODER_ARGUMENTS = ("packed", "rematerialize")

    def __init__(
        self,
        config: AlbertConfig,
        *,
        packed: bool = False,
        rematerialize: bool = False,
        **kwargs,
    ):
        super().__init__(config, **{"name": "sentence_encoder", **kwargs})
        self._add_encoder(packed=packed, rematerialize=rematerialize)
        # What `fit`, `evaluate` and `predict` call -> its number of texts.
        self._num_texts_of: dict[str, int] = {}
        self.complete()

    def call(self, inputs, training=False):
        """Maps the input dict to embeddings `[batch, hidden]`."""
        inputs = named_inputs(inputs, ENCODER_INPUTS)
        *examples, length = ops.shape(inputs["input_word_ids"])
        rows = {n: ops.reshape(x, (-1, length)) for n, x in inputs.items()}
        means = self.encoder.mean_output(rows, training=training)
        return ops.reshape(means, (*examples, self.config.hidden_size))

    def _training_arrays(self, x, y, sample_weight, batch_size, validation):
        self._prepare(x, "train_function", "test_function")
        return super()._training_arrays(
            x, y, sample_weight, batch_size, validation
        )

    def evaluate(self, x=None, *args, **kwargs):
        """Evaluates the model, like `keras.Model.evaluate`; see `fit`."""
        x = as_lists(x)
        self._prepare(x, "test_function")
        return super().evaluate(x, *args, **kwargs)

    def predict(self, x, *args, **kwargs):
        """Returns the outputs, like `keras.Model.predict`; see `fit`."""
        x = as_lists(x)
        self._prepare(x, "predict_function")
        return super().predict(x, *args, **kwargs)

    def _prepare(self, x: Any, *functions: str) -> None:
        """Makes Keras create its functions again for another number of texts.

        TensorFlow would trace a function of inputs of both ranks. Functions of
        other methods stay: `predict` may be called in a callback of `fit`.
        """
        count = self._num_texts(x)
        for name in functions if count else ():
            if self._num_texts_of.get(name) != count:
                setattr(self, name, None)
                self._num_texts_of[name] = count

    def _sequences(self, preprocessor, texts, y, sample_weight, multiple=1):
        count = len(texts)
        if tf.executing_eagerly():
            xp, rows = np, [text for part in texts for text in part]
        else:
            xp, rows = tf, tf.concat(texts, 0)
        sequences, y, sample_weight = super()._sequences(
            preprocessor, [rows], y, sample_weight, multiple
        )
        if count > 1:
            sequences = {
                name: xp.stack(xp.split(x, count), 1)
                for name, x in sequences.items()
            }
        return sequences, y, sample_weight


@keras.saving.register_keras_serializable(package="albert_tf")
def cosine_loss(y_true, y_pred):
    """Returns squared errors of the cosines of pairs, a loss for `compile`.

    Args:
      y_true: the cosine that a pair should have, `[batch]`.
      y_pred: embeddings `[batch, 2, hidden]`.
    """
    shape = ops.shape(y_pred)
    if len(shape) != 3 or (isinstance(shape[1], int) and shape[1] != 2):
        raise InputError(
            f"cosine_loss: embeddings of shape {list(shape)} must be [batch, "
            "2, hidden], those of pairs of texts"
        )
    unit = ops.normalize(y_pred, axis=-1)
    cosines = ops.sum(unit[:, 0] * unit[:, 1], axis=-1)
    targets = ops.reshape(ops.cast(y_true, cosines.dtype), (-1,))
    return ops.square(cosines - targets)


class EmbeddingLoss(BatchLoss):
    """Contrastive loss, or for pairs with scores the error of the cosine.

    The batch has the inputs of each text `[batch, texts, seq]`, or `[batch,
    seq]` of texts alone, `text_hashes` and, with scores, `labels`. Texts alone
    are encoded twice, under different dropout masks (SimCSE, arXiv:2104.08821).
    """

    def __init__(self, temperature: float = 0.05):
        self._temperature = temperature

    def inputs(self, batch):
        """Returns rows of texts, those of an example one after the other."""
        rows = {}
        for name in self.INPUTS:
            values = batch[name]
            if values.shape.rank == 2:
                values = tf.stack([values, values], axis=1)
            shape = tf.shape(values)
            rows[name] = tf.reshape(values, [shape[0] * shape[1], shape[2]])
        return rows

    def sums(self, batch, outputs):
        """Returns sums of the losses and of the metrics."""
        hashes = batch[TEXT_HASHES]
        if hashes.shape[1] == 1:
            hashes = tf.concat([hashes, hashes], axis=1)
        texts, hidden = hashes.shape[1], outputs.shape[-1]
        vectors = tf.reshape(outputs, [-1, texts, hidden])
        if LABELS in batch:
            losses, metrics = cosine_losses(vectors, batch[LABELS])
        else:
            losses, metrics = ranking_losses(vectors, hashes, self._temperature)
        metrics = {name: tf.reduce_sum(x) for name, x in metrics.items()}
        return tf.reduce_sum(losses), metrics


def ranking_losses(
    vectors: tf.Tensor, hashes: tf.Tensor, temperature: float
) -> tuple[tf.Tensor, Tensors]:
    """Computes the contrastive loss with the other texts of the batch.

    It is sentence-transformers' `MultipleNegativesRankingLoss` with the scale
    `1 / temperature`: the cross-entropy of finding an anchor's positive by its
    cosine among the positives and hard negatives of all examples. Texts that
    equal the anchor or its positive, and positives of equal anchors, are not
    negatives.

    Args:
      vectors: of anchor, positive and any hard negatives, `[batch, texts,
        hidden]`.
      hashes: equal for equal texts, int32 `[batch, texts]`.
      temperature: divides the cosines.

    Returns:
      The losses `[batch]`, and as a metric the `accuracy`: 1 where the positive
      has the largest cosine.
    """
    unit = tf.math.l2_normalize(vectors, axis=-1)
    batch, size = tf.shape(unit)[0], unit.shape[-1]
    # All positives, then all hard negatives.
    candidates = tf.reshape(tf.transpose(unit[:, 1:], [1, 0, 2]), [-1, size])
    of_candidates = tf.reshape(tf.transpose(hashes[:, 1:]), [-1])
    logits = tf.matmul(unit[:, 0], candidates, transpose_b=True) / temperature
    equal = (of_candidates == hashes[:, :1]) | (of_candidates == hashes[:, 1:2])
    same_anchor = hashes[:, :1] == hashes[:, 0]
    others = tf.shape(logits)[1] - batch
    equal |= tf.pad(same_anchor, [[0, 0], [0, others]])
    equal &= ~tf.eye(batch, batch + others, dtype=tf.bool)
    logits = tf.where(equal, _EXCLUDED, logits)
    losses, hits = sparse_cross_entropy(tf.range(batch), logits)
    return losses, {"accuracy": hits}


def cosine_losses(
    vectors: tf.Tensor, targets: tf.Tensor
) -> tuple[tf.Tensor, Tensors]:
    """Returns the squared and the absolute error of the cosines of two texts.

    The former is sentence-transformers' `CosineSimilarityLoss`.

    Args:
      vectors: of the two texts, `[batch, 2, hidden]`.
      targets: the cosine that they should have, float32 `[batch]`.
    """
    unit = tf.math.l2_normalize(vectors, axis=-1)
    errors = tf.reduce_sum(unit[:, 0] * unit[:, 1], axis=-1) - targets
    return tf.square(errors), {"absolute_error": tf.abs(errors)}
