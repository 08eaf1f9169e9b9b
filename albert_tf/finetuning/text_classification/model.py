"""Model, loss and exported graph of text classification and regression."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from albert_tf.finetuning.head_model import LabelHeadModel
from albert_tf.finetuning.losses import MeanLoss
from albert_tf.finetuning.serving import TEXTS, ServingGraph
from albert_tf.models.base import with_attentions
from albert_tf.models.model_graph import ModelGraph, Tensors
from albert_tf.text.preprocessor import GraphPreprocessor


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertClassifier(LabelHeadModel):
    """Pooled output -> dropout -> dense: GLUE's tasks in the original.

    Inputs are the encoder's dict. The output is float32 logits
    `[batch, num_labels]` whatever the precision, so that training is
    `compile(loss=SparseCategoricalCrossentropy(from_logits=True))` and `fit`;
    with `num_labels=1` it is a number, and the loss "mse".

    Args:
      config: the architecture.
      num_labels: size of the output; 1 is regression.
      dropout: of the pooled output; the original's is 0.1 in every model.
      labels: names of the labels in the order of the logits, kept with the
        model.
      packed: see `AlbertEncoder`.
      rematerialize: see `AlbertEncoder`.
      output_attentions: see `AlbertEncoder`. The output is then a dict of
        `logits` and `attentions`.
      **kwargs: `name`, `dtype` and `trainable` of `keras.Model`.

    Raises:
      InputError: a bad `num_labels`, `dropout` or `labels`.
    """

    HEAD = "classifier_head"
    NAME = "classifier"
    POOLER = True

    def call(self, inputs, training=False):
        """Maps the input dict to logits `[batch, num_labels]`."""
        pooled, attentions = self.pooled(inputs, training)
        logits = self.classifier_head(self.dropout(pooled, training=training))
        return with_attentions(logits, attentions)


class RegressionLoss(MeanLoss):
    """Squared error of float32 labels `[batch]`; outputs are `[batch, 1]`."""

    def losses(self, labels, outputs):
        """Returns squared and absolute errors; see the base class."""
        errors = outputs[:, 0] - labels
        return tf.square(errors), {"absolute_error": tf.abs(errors)}


def text_graph(
    task_type: Any, model: AlbertClassifier, packed: bool
) -> ServingGraph:
    """Returns the exported graph of a task of texts or pairs of texts.

    Inputs: `text` `[batch]`, and for pairs `text_pair` `[batch]`. Outputs: the
    task type's `serving_outputs`. Sequences are those of `text_features`.

    Args:
      task_type: the `TextTaskType`, with its tokenizer.
      model: the fine-tuned model.
      packed: see `AlbertEncoder`.

    Raises:
      InputError: `max_seq_length` is beyond the model's.
    """
    names = ["text", "text_pair"] if task_type.has_pairs else ["text"]
    length = task_type.max_seq_length
    preprocessor = GraphPreprocessor(task_type.tokenizer, length)
    graph = ModelGraph(model, packed)

    def call(inputs: Tensors, training: bool) -> Tensors:
        segments = [preprocessor.tokenize(inputs[name]) for name in names]
        sequences = preprocessor.pack_to_longest(segments, length)
        if task_type.has_pairs:
            # If the second text is empty, the first stands alone.
            longest = tf.shape(sequences["input_word_ids"])[1]
            alone = preprocessor.bert_pack_inputs(segments[:1], longest)
            empty = segments[1].row_lengths()[:, None] == 0
            sequences = {
                name: tf.where(empty, alone[name], x)
                for name, x in sequences.items()
            }
        return task_type.serving_outputs(graph(sequences, training))

    return ServingGraph(
        model=graph,
        preprocessor=preprocessor,
        inputs=dict.fromkeys(names, TEXTS),
        call=call,
        max_seq_length=length,
        labels=task_type.labels or None,
    )
