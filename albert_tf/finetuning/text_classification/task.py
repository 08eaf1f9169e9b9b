"""Text classification and regression: one text, or a pair of texts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from albert_tf.errors import InputError
from albert_tf.finetuning.ensembles import average_probabilities, average_values
from albert_tf.finetuning.task_config import TaskConfig
from albert_tf.finetuning.task_type import TaskType
from albert_tf.finetuning.text_classification.examples import (
    TextExample,
    TextTask,
    read_texts,
)
from albert_tf.finetuning.text_classification.features import text_features
from albert_tf.finetuning.text_classification.glue import GLUE, glue_examples
from albert_tf.finetuning.text_classification.metrics import (
    classification_metrics,
)


class TextTaskType(TaskType):
    """Base class of task types whose examples are a text or a pair of texts.

    It reads and tokenizes them and makes `AlbertClassifier`s.
    """

    reads_lines = True

    @classmethod
    def known_tasks(cls):
        """Returns the tasks of GLUE that are of this type."""
        tasks = map(text_task_config, GLUE.values())
        return tuple(task for task in tasks if task.task_type == cls.name)

    @property
    def text_task(self) -> TextTask:
        """How the task's tables are read."""
        source = self.task_config.source
        values = {key: x for key, x in source.items() if key != "reader"}
        for name in ("labels", "metrics", "lost_header"):
            # JSON has only lists.
            values[name] = values[name] and tuple(values[name])
        return TextTask(**values)

    @property
    def has_pairs(self) -> bool:
        """Whether an example is a pair of texts."""
        return self.task_config.source["pair"] is not None

    @property
    def input_fields(self):
        """The texts of an example."""
        return ("text", "pair") if self.has_pairs else ("text",)

    def read_examples(self, path, *, bad, labelled, training=False):
        """Reads the rows of a table; see `read_texts`."""
        return read_texts(self.text_task, path, bad=bad, labelled=labelled)

    def read_dataset(self, parts, *, bad, labelled, training=False):
        """Reads the rows of one of GLUE's data sets."""
        [part] = parts
        return glue_examples(
            self.task_config.name, part, bad=bad, labelled=labelled
        )

    def example_from_line(self, line, id, location):
        """Makes an example of a text, or of two with a tab between them."""
        text, tab, pair = line.rstrip("\r\n").partition("\t")
        return self._example(text, pair if tab else None, id, location)

    def example_from_fields(self, fields, id):
        """Makes an example of `text` and, in tasks of pairs, `pair`."""
        if "text" not in fields:
            return super().example_from_fields(fields, id)
        return self._example(fields["text"], fields.get("pair"), id, "--text")

    def _example(
        self, text: str, pair: str | None, id: str, location: str
    ) -> TextExample:
        task = self.task_config.name
        if not self.has_pairs and pair is not None:
            raise InputError(
                f"{location}: the task {task} takes one text, not two"
            )
        if self.has_pairs and pair is None:
            raise InputError(
                f"{location}: the task {task} takes two texts: --text and "
                "--pair, or a line with a tab between them"
            )
        if not text.strip() or (pair is not None and not pair.strip()):
            raise InputError(f"{location}: a text is empty")
        return TextExample(id=id, text=text, pair=pair, location=location)

    def training_features(self, examples):
        """Returns features with labels; see `text_features`."""
        return text_features(
            examples,
            self.tokenizer,
            max_seq_length=self.max_seq_length,
            labels=self.task_config.labels,
        )

    def prediction_features(self, examples):
        """Returns features without labels; see `text_features`."""
        return text_features(
            examples,
            self.tokenizer,
            max_seq_length=self.max_seq_length,
            labelled=False,
        )

    @property
    def model_class(self):
        """Class of the models."""
        from albert_tf.finetuning.text_classification.model import (
            AlbertClassifier,
        )

        return AlbertClassifier

    def sample_examples(self, texts):
        """Returns an example of each text."""
        pairs = texts[::-1] if self.has_pairs else [None] * len(texts)
        return [
            TextExample(id=str(i), text=text, pair=pair, location="")
            for i, (text, pair) in enumerate(zip(texts, pairs, strict=True))
        ]

    def serving_inputs(
        self, examples: Sequence[TextExample]
    ) -> dict[str, list[Any]]:
        """Returns the texts as inputs of the serving graph."""
        inputs: dict[str, list[Any]] = {"text": [x.text for x in examples]}
        if self.has_pairs:
            inputs["text_pair"] = [x.pair for x in examples]
        return inputs


class TextClassification(TextTaskType):
    """One of several labels for a text or a pair of texts.

    A prediction is float64 probabilities `[labels]`.
    """

    name = "text_classification"

    def model_arguments(self):
        """Returns the number of labels and their names."""
        labels = self.labels
        return {"num_labels": len(labels), "labels": labels}

    def make_loss(self):
        """Returns the cross-entropy of the labels."""
        from albert_tf.finetuning.losses import CrossEntropyLoss

        return CrossEntropyLoss()

    def predictions(self, examples, features, outputs):
        """Returns the probabilities of the labels."""
        return [softmax(output["logits"]) for output in outputs]

    def average(self, members):
        """Returns the means of the probabilities."""
        return list(
            average_probabilities({n: np.array(x) for n, x in members.items()})
        )

    def record(self, example, prediction):
        """Returns the most likely label and all probabilities."""
        labels = self.labels
        return {
            "id": example.id,
            "label": labels[int(np.argmax(prediction))],
            "probabilities": dict(
                zip(labels, map(float, prediction), strict=True)
            ),
        }

    def scores(self, examples, predictions):
        """Returns the task's metrics and the mean cross-entropy."""
        labels = self._label_numbers(examples)
        return label_scores(self.task_config.metrics, predictions, labels)

    def check_scores(self, examples):
        """Scores the labels themselves; see the base class."""
        labels = self._label_numbers(examples)
        classification_metrics(self.task_config.metrics, labels, labels)

    def serving_graph(self, model, *, packed=True):
        """Returns `text_classification_graph` of the task."""
        from albert_tf.finetuning.text_classification import serving

        return serving.text_classification_graph(
            model,
            self.tokenizer,
            labels=self.labels,
            pair=self.has_pairs,
            max_seq_length=self.max_seq_length,
            packed=packed,
        )

    def litert_outputs(self, model, batch):
        """Returns `probabilities` `[batch, labels]`."""
        import tensorflow as tf

        logits = self.forward(model, batch)["logits"]
        return {"probabilities": tf.nn.softmax(logits)}

    def serving_arrays(self, examples, predictions):
        """Returns the texts and the probabilities."""
        outputs = {"probabilities": np.array(predictions)}
        return self.serving_inputs(examples), outputs

    def _label_numbers(self, examples: Sequence[TextExample]) -> list[int]:
        numbers: dict[str | float | None, int] = {
            label: i for i, label in enumerate(self.labels)
        }
        return [numbers[example.label] for example in examples]


class Regression(TextTaskType):
    """A number for a text or a pair of texts; a prediction is a float."""

    name = "regression"

    def model_arguments(self):
        """Returns that the model has one output."""
        return {"num_labels": 1}

    def make_loss(self):
        """Returns the squared error of the numbers."""
        from albert_tf.finetuning.text_classification.model import (
            RegressionLoss,
        )

        return RegressionLoss()

    def predictions(self, examples, features, outputs):
        """Returns the numbers."""
        return [float(output["logits"][0]) for output in outputs]

    def average(self, members):
        """Returns the means."""
        return [float(x) for x in average_values(members)]

    def record(self, example, prediction):
        """Returns the number."""
        return {"id": example.id, "value": prediction}

    def scores(self, examples, predictions):
        """Returns the task's metrics and the mean squared error."""
        labels = np.array([example.label for example in examples], float)
        values = np.array(predictions)
        loss = float(np.mean((values - labels) ** 2))
        metrics = self.task_config.metrics
        return classification_metrics(metrics, values, labels) | {"loss": loss}

    def check_scores(self, examples):
        """Scores the labels themselves; see the base class."""
        labels = np.array([example.label for example in examples], float)
        classification_metrics(self.task_config.metrics, labels, labels)

    def serving_graph(self, model, *, packed=True):
        """Returns `regression_graph` of the task."""
        from albert_tf.finetuning.text_classification import serving

        return serving.regression_graph(
            model,
            self.tokenizer,
            pair=self.has_pairs,
            max_seq_length=self.max_seq_length,
            packed=packed,
        )

    def litert_outputs(self, model, batch):
        """Returns `value` `[batch]`."""
        return {"value": self.forward(model, batch)["logits"][:, 0]}

    def serving_arrays(self, examples, predictions):
        """Returns the texts and the numbers."""
        outputs = {"value": np.array(predictions)}
        return self.serving_inputs(examples), outputs


def text_source(task: TextTask) -> dict[str, Any]:
    """Returns `TaskConfig.source` of a task that is read from tables."""
    return {"reader": "texts", **dataclasses.asdict(task)}


def text_task_config(task: TextTask) -> TaskConfig:
    """Returns the configuration of a task of GLUE or of the user's own."""
    task_type = Regression if task.labels is None else TextClassification
    return TaskConfig(
        name=task.name,
        task_type=task_type.name,
        labels=task.labels,
        metrics=task.metrics,
        settings=task_type.default_settings,
        source=text_source(task),
    )


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
