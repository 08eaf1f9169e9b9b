"""Model and loss for token classification."""

from __future__ import annotations

import dataclasses
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.finetuning.head_model import LabelHeadModel
from albert_tf.finetuning.losses import CrossEntropyLoss
from albert_tf.finetuning.serving import split, strip
from albert_tf.finetuning.token_classification.examples import NER
from albert_tf.finetuning.token_classification.features import word_sequences
from albert_tf.finetuning.token_classification.metrics import are_entity_labels
from albert_tf.models.base import with_attentions

# A control character, which has no pieces.
_NO_WORD = "\x01"


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertTokenClassifier(LabelHeadModel):
    """ALBERT with a token classification head, which the original lacks.

    The sequence output goes through dropout and a dense layer. Inputs are the
    encoder's dict. The output is logits `[batch, seq, num_labels]`, float32 in
    any precision. Those of padding are meaningless, so `fit` needs sample
    weights `[batch, seq]` that are 0 there.

    `fit`, `evaluate` and `predict` also take strings, see `TaskModel`:
    sentences, whose words are separated by white space. Labels are lists, or
    strings, of a label for each word. They belong to the first pieces of
    words; all others get the weight 0. Words that do not fit into
    `max_seq_length` are left out. Keras's losses are means over all positions;
    where XLA compiles steps (JAX, GPUs), batches of datasets are padded to
    multiples of 32. Metrics are `weighted_metrics`:

        model.compile("adam", loss, weighted_metrics=["accuracy"])
        model.fit(["Anna lives here"], ["PERSON O O"])

    Args:
      config: the architecture.
      num_labels: number of outputs per token.
      dropout: dropout rate of the sequence output.
      labels: names of the labels in the order of the logits, saved with the
        model.
      packed: see `AlbertEncoder`.
      rematerialize: see `AlbertEncoder`.
      output_attentions: see `AlbertEncoder`. The output is then a dict of
        `logits` and `attentions`.
      **kwargs: `name`, `dtype` and `trainable` of `keras.Model`.

    Raises:
      InputError: if `num_labels`, `dropout` or `labels` is not valid.
    """

    HEAD = "token_head"
    TASK_TYPES = ("token_classification",)
    TASK = NER
    NAME = "token_classifier"
    POOLER = False
    TOKEN_OUTPUTS = True

    def call(self, inputs, training=False):
        """Maps the input dict to logits `[batch, seq, num_labels]`."""
        outputs = self.encoder(inputs, training=training)
        states = self.dropout(outputs["sequence_output"], training=training)
        logits = self.token_head(states)
        return with_attentions(logits, outputs.get("attentions"))

    def _task(self, num_texts):
        self.labels = self.label_names
        task = super()._task(num_texts)
        task = dataclasses.replace(task, labels=self.labels)
        if self.task_config is None and not are_entity_labels(self.labels):
            task = dataclasses.replace(task, metrics=("accuracy",))
        return task

    def _class_weight(
        self, x, y, sample_weight, class_weight
    ) -> tuple[Any, Any, dict[Any, float] | None]:
        """Multiplies class weights into token weights: Keras takes only one."""
        of_labels = self._weights_by_id(class_weight)
        factors = np.ones(self.num_labels, np.float32)
        factors[list(of_labels)] = list(of_labels.values())

        def weights_of(y, weights=None):
            # Labels that the loss ignores, such as -1, may have any weight.
            ids = tf.clip_by_value(tf.cast(y, tf.int32), 0, len(factors) - 1)
            found = tf.gather(factors, ids)
            if weights is None:
                return found
            weights = tf.cast(weights, tf.float32)
            per_row = weights.shape.rank == 1
            return found * (weights[:, None] if per_row else weights)

        if isinstance(x, tf.data.Dataset):
            return x.map(lambda x, *y: (x, y[0], weights_of(*y))), None, None
        if y is None:
            raise InputError(
                "class_weight of tokens needs arrays or a tf.data.Dataset; "
                "let the generator yield sample weights"
            )
        return x, weights_of(np.asarray(y), sample_weight).numpy(), None

    def _sequences(self, preprocessor, texts, y, sample_weight, multiple=1):
        eager = tf.executing_eagerly()
        (sentences,) = texts
        sentences = tf.convert_to_tensor(sentences)
        # A word without pieces stands for a sentence without words.
        is_blank = strip(sentences) == ""
        words = split(tf.where(is_blank, _NO_WORD, sentences))
        counts = tf.cast(words.row_lengths(), tf.int32)
        made = word_sequences(
            preprocessor,
            words.flat_values,
            counts.numpy() if eager else counts,
            self.max_seq_length,
            multiple=multiple,
        )
        # A row for each sentence: the first of its sequences.
        sequence_of = tf.cast(made.sequence_of, tf.int32)
        rows = tf.gather(sequence_of, tf.cumsum(counts, exclusive=True))
        inputs = {name: tf.gather(x, rows) for name, x in made.inputs.items()}
        weights = None
        if y is not None:
            labels = _labels_of_words(y, tf.where(is_blank, 0, counts))
            sentence_of = tf.cast(words.value_rowids(), tf.int32)
            is_word = ~tf.gather(is_blank, sentence_of)
            kept = tf.gather(rows, sentence_of) == sequence_of
            position_of = tf.cast(made.position_of, tf.int32)
            places = tf.stack([sentence_of, position_of], axis=1)
            places = places[kept & is_word]
            shape = tf.shape(inputs["input_word_ids"])
            ids = tf.cast(self._label_ids(labels), tf.int32)
            y = tf.scatter_nd(places, ids[kept[is_word]], shape)
            ones = tf.ones(tf.shape(places)[:1])
            weights = tf.scatter_nd(places, ones, shape)
            if sample_weight is not None:
                weights *= tf.cast(sample_weight, tf.float32)[:, None]
        values = inputs, y, weights
        if eager:
            values = tf.nest.map_structure(
                lambda x: None if x is None else x.numpy(), values
            )
        return values


def _labels_of_words(y, counts: tf.Tensor) -> tf.Tensor:
    """Returns the labels of the words of all sentences, one after the other.

    Args:
      y: labels as given to `fit`.
      counts: number of words in each sentence, int32 `[batch]`.

    Raises:
      InputError: if a sentence has another number of labels; in a graph, the
        error is that of an assertion.
    """
    if not tf.is_tensor(y):
        y = tf.ragged.constant([list(x) if np.ndim(x) else x for x in y])
    if not isinstance(y, tf.RaggedTensor):
        is_text = y.shape.rank == 1
        y = split(y) if is_text else tf.RaggedTensor.from_tensor(y)
    given = tf.cast(y.row_lengths(), tf.int32)
    problem = "sentence {} has {} words, but {} labels"
    if tf.executing_eagerly():
        pairs = zip(counts.numpy(), given.numpy(), strict=True)
        for number, (count, labels) in enumerate(pairs):
            if count != labels:
                raise InputError(problem.format(number, count, labels))
        return y.flat_values
    number = tf.argmax(counts != given)
    text = tf.strings.format(problem, (number, counts[number], given[number]))
    check = tf.debugging.Assert(tf.reduce_all(counts == given), [text])
    with tf.control_dependencies([check]):
        return tf.identity(y.flat_values)


class TokenClassificationLoss(CrossEntropyLoss):
    """Cross-entropy of token labels, int32 `[batch, seq]`; -1 is ignored."""

    def weights(self, labels):
        """Returns 1 where a token has a label."""
        return tf.cast(labels >= 0, tf.float32)

    def losses(self, labels, outputs):
        """Returns cross-entropies, and 1 where the prediction is right."""
        return super().losses(tf.maximum(labels, 0), outputs)
