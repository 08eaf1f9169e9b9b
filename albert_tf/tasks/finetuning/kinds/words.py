"""Labels of words: named entities, parts of speech."""

from __future__ import annotations

import numpy as np

from albert_tf.data.features.rows_builder import RowsBuilder
from albert_tf.data.features.words import IGNORED, values_of_words, words_rows
from albert_tf.errors import InputError
from albert_tf.metrics.sequence import sequence_metrics
from albert_tf.models.inputs import ENCODER_INPUTS
from albert_tf.models.token_classifier import AlbertTokenClassifier
from albert_tf.tasks.ensembles import average_word_probabilities
from albert_tf.tasks.finetuning.kinds.base import Prepared, TaskKind
from albert_tf.tasks.finetuning.kinds.texts import softmax
from albert_tf.tasks.finetuning.losses import LABELS, TokenLabelTask


class Words(TaskKind):
    """Sentences of words; a prediction is float64 `[words, labels]`.

    The only setting is `max_seq_length`.
    """

    model_class = AlbertTokenClassifier
    token_outputs = ("logits",)

    def model_arguments(self):
        """Returns the number of labels and their names."""
        labels = self.description.labels
        return {"num_labels": len(labels), "labels": labels}

    def training_task(self):
        """Returns the loss."""
        return TokenLabelTask()

    def training_rows(self, examples):
        """Returns rows whose first pieces of words have labels."""
        builder = RowsBuilder(
            pad_id=self.tokenizer.pad_id, token_padding={LABELS: IGNORED}
        )
        for rows in self._rows(examples, self.description.labels):
            for row in rows:
                builder.append(row.ids, row.types, **{LABELS: row.labels})
        return builder.build()

    def prepare(self, examples):
        """Returns the rows of sentences, several of one that is too long."""
        parts = list(self._rows(examples, None))
        builder = RowsBuilder(pad_id=self.tokenizer.pad_id)
        for rows in parts:
            for row in rows:
                builder.append(row.ids, row.types)
        return Prepared(examples=examples, rows=builder.build(), parts=parts)

    def forward(self, model, batch):
        """Returns `logits` `[batch, seq, labels]`."""
        return {"logits": model({name: batch[name] for name in ENCODER_INPUTS})}

    def predictions(self, prepared, outputs):
        """Returns the probabilities of the labels of each word."""
        logits = iter([output["logits"] for output in outputs])
        empty = np.zeros([0, len(self.description.labels)])
        return [
            softmax(values_of_words(rows, [next(logits) for _ in rows]))
            if rows
            else empty
            for rows in prepared.parts
        ]

    def average(self, members):
        """Returns the means of the probabilities."""
        return average_word_probabilities(members)

    def scores(self, examples, predictions):
        """Returns the task's metrics, and the mean cross-entropy of words."""
        labels = self.description.labels
        places = {label: i for i, label in enumerate(labels)}
        losses = [
            -np.log(p[places[label]])
            for example, words in zip(examples, predictions, strict=True)
            for label, p in zip(example.labels, words, strict=True)
        ]
        scores = sequence_metrics(
            self.description.metrics,
            [self._best(words) for words in predictions],
            [list(example.labels) for example in examples],
        )
        return scores | {"loss": float(np.mean(losses))}

    def check_scores(self, examples):
        """Scores the labels themselves; see the base class.

        Raises:
          InputError: a label is not one of the task's, too.
        """
        for example in examples:
            for label in example.labels:
                if label not in self.description.labels:
                    raise InputError(
                        f"{example.place}: label {label!r} is not one of "
                        f"{', '.join(self.description.labels)}, which are "
                        "those of the training files"
                    )
        labels = [list(example.labels) for example in examples]
        sequence_metrics(self.description.metrics, labels, labels)

    def record(self, example, prediction):
        """Returns the words and the most likely label of each."""
        return {
            "id": example.id,
            "words": list(example.words),
            "labels": self._best(prediction),
        }

    def has_labels(self, examples):
        """Whether examples can be scored."""
        return all(example.labels is not None for example in examples)

    def _best(self, probabilities: np.ndarray) -> list[str]:
        labels = self.description.labels
        return [labels[place] for place in probabilities.argmax(axis=-1)]

    def _rows(self, examples, labels):
        return words_rows(
            examples,
            self.tokenizer,
            max_seq_length=self.max_seq_length,
            labels=labels,
        )
