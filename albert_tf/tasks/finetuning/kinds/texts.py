"""Labels, or numbers, of texts and pairs of texts."""

from __future__ import annotations

import numpy as np

from albert_tf.data.features.texts import text_rows
from albert_tf.metrics.classification import classification_metrics
from albert_tf.models.classifier import AlbertClassifier
from albert_tf.models.inputs import ENCODER_INPUTS
from albert_tf.tasks.ensembles import average_probabilities, average_values
from albert_tf.tasks.finetuning.kinds.base import Prepared, TaskKind
from albert_tf.tasks.finetuning.losses import LabelTask, NumberTask


class _Texts(TaskKind):
    """What both have in common; the only setting is `max_seq_length`."""

    model_class = AlbertClassifier

    def training_rows(self, examples):
        """Returns rows with labels; see the base class."""
        return text_rows(
            examples,
            self.tokenizer,
            max_seq_length=self.max_seq_length,
            labels=self.description.labels,
        )

    def prepare(self, examples):
        """Returns rows without labels; see the base class."""
        rows = text_rows(
            examples,
            self.tokenizer,
            max_seq_length=self.max_seq_length,
            labelled=False,
        )
        return Prepared(examples=examples, rows=rows)

    def forward(self, model, batch):
        """Returns `logits` `[batch, classes]`."""
        inputs = {name: batch[name] for name in ENCODER_INPUTS}
        return {"logits": model(inputs)}


class TextClasses(_Texts):
    """One of several labels; a prediction is float64 probabilities."""

    def model_arguments(self):
        """Returns the number of labels and their names."""
        labels = self.description.labels
        return {"num_labels": len(labels), "labels": labels}

    def training_task(self):
        """Returns the loss."""
        return LabelTask()

    def predictions(self, prepared, outputs):
        """Returns the probabilities of the labels, float64 `[classes]`."""
        return [softmax(output["logits"]) for output in outputs]

    def average(self, members):
        """Returns the means of the probabilities."""
        return list(
            average_probabilities({n: np.array(x) for n, x in members.items()})
        )

    def scores(self, examples, predictions):
        """Returns the task's metrics and the mean cross-entropy."""
        labels = self._places(examples)
        return label_scores(self.description.metrics, predictions, labels)

    def check_scores(self, examples):
        """Scores the labels themselves; see the base class."""
        labels = self._places(examples)
        classification_metrics(self.description.metrics, labels, labels)

    def record(self, example, prediction):
        """Returns the most likely label and all probabilities."""
        labels = self.description.labels
        return {
            "id": example.id,
            "label": labels[int(np.argmax(prediction))],
            "probabilities": dict(
                zip(labels, map(float, prediction), strict=True)
            ),
        }

    def _places(self, examples) -> list[int]:
        places = {x: i for i, x in enumerate(self.description.labels)}
        return [places[example.label] for example in examples]


class TextNumber(_Texts):
    """A number; a prediction is a float."""

    def model_arguments(self):
        """Returns that the model has one output."""
        return {"num_labels": 1}

    def training_task(self):
        """Returns the loss."""
        return NumberTask()

    def predictions(self, prepared, outputs):
        """Returns the numbers."""
        return [float(output["logits"][0]) for output in outputs]

    def average(self, members):
        """Returns the means."""
        return [float(x) for x in average_values(members)]

    def scores(self, examples, predictions):
        """Returns the task's metrics and the mean squared error."""
        labels = np.array([example.label for example in examples], float)
        values = np.array(predictions)
        loss = float(np.mean((values - labels) ** 2))
        metrics = self.description.metrics
        return classification_metrics(metrics, values, labels) | {"loss": loss}

    def check_scores(self, examples):
        """Scores the labels themselves; see the base class."""
        labels = np.array([example.label for example in examples], float)
        classification_metrics(self.description.metrics, labels, labels)

    def record(self, example, prediction):
        """Returns the number."""
        return {"id": example.id, "value": prediction}


def softmax(logits: np.ndarray) -> np.ndarray:
    """Returns probabilities over the last axis, in float64.

    In float32, probabilities of wrong labels become 0, and their loss infinite.
    """
    logits = np.asarray(logits, np.float64)
    values = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return values / values.sum(axis=-1, keepdims=True)


def label_scores(
    metrics: tuple[str, ...],
    probabilities: list[np.ndarray],
    labels: list[int],
) -> dict[str, float]:
    """Returns metrics of the most likely labels, and the mean cross-entropy.

    Args:
      metrics: see `classification_metrics`.
      probabilities: for each example, float64.
      labels: the right ones.
    """
    best = np.array([int(np.argmax(p)) for p in probabilities])
    right = [p[y] for p, y in zip(probabilities, labels, strict=True)]
    scores = classification_metrics(metrics, best, np.array(labels))
    return scores | {"loss": float(-np.mean(np.log(right)))}
