"""Task type of token classification: a label for each word."""

from __future__ import annotations

import numpy as np

from albert_tf.finetuning.metrics import softmax
from albert_tf.finetuning.task_type import TaskType
from albert_tf.finetuning.token_classification.examples import (
    NER,
    TokenClassificationExample,
    label_problem,
    labels_of,
    read_conll,
)
from albert_tf.finetuning.token_classification.metrics import (
    SEQUENCE_METRICS,
    sequence_metrics,
    word_baselines,
)


class TokenClassification(TaskType):
    """Labels for the words of sentences.

    A prediction is the probabilities of the labels, float64 `[words, labels]`.
    """

    name = "token_classification"
    loss_settings = ("class_weights", "label_smoothing")
    known_tasks = (NER,)
    learns_labels = True
    metric_names = SEQUENCE_METRICS
    layout = "words"

    @property
    def serving_forms(self):
        """Exports take `text` `[batch]`, or `words` `[batch, words]`."""
        return {"serving_default": {"text": 1}, "words": {"words": 2}}

    def read_examples(self, source, *, bad, labelled, training=False):
        """Reads the sentences of a file; see `read_conll`.

        Sentences with a label that is not one of the task are bad examples.
        """
        for example in read_conll(source, bad=bad, labelled=labelled):
            problem = ""
            if labelled and self.labels:
                problem = label_problem(example, self.labels)
            if problem:
                bad.report(example.location, problem)
            else:
                yield example

    def example(self, texts, id, location):
        """Makes an example from the words of `text`, between white space."""
        return TokenClassificationExample(
            id=id, words=tuple(texts["text"].split()), location=location
        )

    @property
    def model_class(self):
        """`AlbertTokenClassifier`."""
        from albert_tf.finetuning.token_classification import model

        return model.AlbertTokenClassifier

    def make_loss(self, **settings):
        """Returns the cross-entropy at the words' first pieces."""
        from albert_tf.finetuning.token_classification import model

        return model.TokenClassificationLoss(**settings)

    def features(self, examples, *, labelled):
        """Returns one or more sequences per sentence; see `word_features`."""
        from albert_tf.finetuning.token_classification import features

        return features.word_features(
            examples,
            self.tokenizer,
            max_seq_length=self.max_seq_length,
            labels=self.labels if labelled else None,
        )

    def predictions(self, examples, features, outputs):
        """Returns the probabilities of the labels for each word."""
        logits = [output["logits"] for output in outputs]
        shape = (-1, len(self.labels))
        return [
            softmax(np.reshape([logits[i][j] for i, j in positions.T], shape))
            for positions in features.metadata
        ]

    def num_scored(self, examples):
        """Returns the number of words."""
        return sum(len(example.words) for example in examples)

    def scores(self, examples, predictions):
        """Returns the task's metrics, and the mean cross-entropy of words."""
        label_ids = {label: i for i, label in enumerate(self.labels)}
        losses = [
            -np.log(p[label])
            for example, words in zip(examples, predictions, strict=True)
            for label, p in zip(
                labels_of(example, label_ids), words, strict=True
            )
        ]
        scores = sequence_metrics(
            self.task_config.metrics,
            [self._best(words) for words in predictions],
            [list(example.labels) for example in examples],
        )
        return scores | {"loss": float(np.mean(losses))}

    def check_scores(self, examples):
        """Checks the metrics by scoring the labels themselves."""
        label_ids = {label: i for i, label in enumerate(self.labels)}
        for example in examples:
            labels_of(example, label_ids)
        labels = [list(example.labels) for example in examples]
        # The model may predict labels that these examples do not have.
        labels.append(list(self.labels))
        sequence_metrics(self.task_config.metrics, labels, labels)

    def baselines(self, training, examples, word_embeddings=None):
        """Returns the scores of `word_baselines`."""
        return word_baselines(self.task_config.metrics, training, examples)

    def record(self, example, prediction):
        """Returns the words and the most likely label of each."""
        return {
            "id": example.id,
            "words": list(example.words),
            "labels": self._best(prediction),
        }

    def serve(self, preprocessor, model, inputs):
        """Returns the labels of words.

        A `text` is split at white space like `str.split`; `words` are padded
        with "". Outputs are:

        - `words`, strings `[batch, words]`, padded with ""
        - `labels`, strings `[batch, words]`: the most likely label of each
          word, padded with ""
        - `logits`, `probabilities`, float32 `[batch, words, labels]`, padded
          with 0
        """
        import tensorflow as tf

        from albert_tf.finetuning.serving import split
        from albert_tf.finetuning.token_classification.features import (
            word_sequences,
        )

        if "text" in inputs:
            words = split(inputs["text"]).to_tensor("")
        else:
            words = inputs["words"]
        is_word = words != ""
        sequences, *places = word_sequences(
            preprocessor,
            tf.boolean_mask(words, is_word),
            tf.math.count_nonzero(is_word, axis=1, dtype=tf.int32),
            self.max_seq_length,
        )
        logits = tf.gather_nd(model(sequences), tf.stack(places, axis=-1))
        best = tf.argmax(logits, axis=-1)
        shape = tf.shape(words, tf.int64)

        def padded(values):
            return tf.scatter_nd(
                tf.where(is_word),
                values,
                tf.concat([shape, tf.shape(values, tf.int64)[1:]], 0),
            )

        return {
            "words": words,
            "labels": padded(tf.gather(tf.constant(self.labels), best)),
            "logits": padded(logits),
            "probabilities": padded(tf.nn.softmax(logits)),
        }

    def _best(self, probabilities: np.ndarray) -> list[str]:
        return [self.labels[i] for i in probabilities.argmax(axis=-1)]
