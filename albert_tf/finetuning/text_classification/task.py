"""Task types of text classification and regression."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from albert_tf.errors import InputError
from albert_tf.finetuning.features import LABELS
from albert_tf.finetuning.task_config import TaskConfig
from albert_tf.finetuning.task_type import TaskType
from albert_tf.finetuning.text_classification.baselines import (
    class_baselines,
    number_baselines,
)
from albert_tf.finetuning.text_classification.examples import (
    TextExample,
    TextTask,
    config_of_texts,
    read_texts,
)
from albert_tf.finetuning.text_classification.glue import GLUE, glue_examples
from albert_tf.finetuning.text_classification.metrics import (
    classification_metrics,
    label_scores,
    softmax,
)
from albert_tf.schema import check_type

_HEADS = ("cls", "pair_features")


class TextTaskType(TaskType):
    """Base class of task types for texts and text pairs.

    Models are `AlbertClassifier`s, or `AlbertPairClassifier`s with the setting
    `head="pair_features"`. Exports take the texts and return
    `serving_outputs`.
    """

    reads_lines = True
    optional_settings: ClassVar = {"head": "cls"}

    @classmethod
    def known_tasks(cls):
        """Returns the tasks of GLUE with this type."""
        tasks = map(text_task_config, GLUE.values())
        return tuple(task for task in tasks if task.task_type == cls.name)

    @classmethod
    def config_of(cls, task: TextTask) -> TaskConfig:
        """Converts a `TextTask` to a `TaskConfig`."""
        return config_of_texts(task, cls.name, cls.default_settings)

    def check_settings(self):
        """Checks `source`, and that a sequence has room for each text."""
        source = self.task_config.source
        if source.get("reader") == "texts":
            check_type(source, TextTask, f"source of {self.task_config.name}")
        self.require_length(5 if self.has_pairs else 4)
        if self.head not in _HEADS:
            raise InputError(
                f"head={self.head}: tasks of the type {self.name} have "
                f"{' and '.join(_HEADS)}"
            )
        if self.head != "cls" and not self.has_pairs:
            raise InputError(
                f"head={self.head} needs two texts, but the task "
                f"{self.task_config.name} has one; use head=cls"
            )

    @property
    def head(self) -> str:
        """Which head the model has: "cls" or "pair_features"."""
        settings = {**self.optional_settings, **self.task_config.settings}
        return settings["head"]

    @property
    def has_pairs(self) -> bool:
        """Whether examples are pairs of texts."""
        return self.task_config.source.get("pair") is not None

    def read_examples(self, path, *, bad, labelled, training=False):
        """Reads the rows of a table; see `read_texts`."""
        names = {field.name for field in dataclasses.fields(TextTask)}
        # Tuples are lists in JSON.
        values: dict[str, Any] = {
            name: tuple(x) if isinstance(x, list) else x
            for name, x in self.task_config.source.items()
            if name in names
        }
        check_type(values, TextTask, f"source of {self.task_config.name}")
        task = TextTask(**values)
        needs = {"labelled": labelled, "training": training}
        return read_texts(task, path, bad=bad, **needs)

    def read_dataset(self, datasets, *, bad, labelled, training=False):
        """Reads a dataset of GLUE."""
        [dataset] = datasets
        return glue_examples(
            self.task_config.name, dataset, bad=bad, labelled=labelled
        )

    def example_from_line(self, line, id, location):
        """Makes an example from a text, or two with a tab between, or blank."""
        texts = [line]
        if self.has_pairs:
            texts = line.split("\t") if line.strip() else ["", ""]
        if len(texts) > 2:
            raise InputError(f"{len(texts)} texts separated by tabs, not two")
        return self._example(*texts, id=id, location=location)

    def example_from_fields(self, fields, id):
        """Makes an example from `text` and, for pairs, `pair`."""
        if not {"text"} <= set(fields) <= {"text", "pair"}:
            return super().example_from_fields(fields, id)
        return self._example(**fields, id=id, location="")

    def _example(
        self, text: str, pair: str | None = None, *, id: str, location: str
    ) -> TextExample:
        if self.has_pairs is not (pair is not None):
            takes = "one text, not two"
            if self.has_pairs:
                takes = "two texts: text and pair, or a tab between them"
            raise InputError(f"the task {self.task_config.name} takes {takes}")
        return TextExample(id=id, text=text, pair=pair, location=location)

    def features(self, examples, *, labelled):
        """Returns features; see `text_features`."""
        from albert_tf.finetuning.text_classification.features import (
            text_features,
        )

        return text_features(
            examples,
            self.tokenizer,
            max_seq_length=self.max_seq_length,
            labels=self.task_config.labels,
            labelled=labelled,
        )

    @property
    def model_class(self):
        """`AlbertClassifier` or `AlbertPairClassifier`."""
        from albert_tf.finetuning.text_classification import model

        if self.head == "pair_features":
            return model.AlbertPairClassifier
        return model.AlbertClassifier

    @property
    def serving_forms(self):
        """Exports take `text` and, for pairs, `text_pair` `[batch]`."""
        names = ["text", "text_pair"] if self.has_pairs else ["text"]
        return {"serving_default": dict.fromkeys(names, 1)}

    def serve(self, preprocessor, model, inputs):
        """Returns the `serving_outputs` of texts."""
        from albert_tf.finetuning.serving import text_sequences

        [names] = self.serving_forms.values()
        texts = [inputs[name] for name in names]
        return self.serving_outputs(
            model(text_sequences(preprocessor, texts, self.max_seq_length))
        )

    @abc.abstractmethod
    def serving_outputs(self, logits: Any) -> dict[str, Any]:
        """Returns the outputs of exports by name, each `[batch, ...]`.

        Args:
          logits: logits of the model, float32 `[batch, num_labels]`.
        """

    def runtime_outputs(self, model, batch):
        """Returns the `serving_outputs`."""
        return self.serving_outputs(self.forward(model, batch)["logits"])

    def sample_examples(self, texts):
        """Returns an example for each text."""
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
    """Classification of texts or text pairs.

    A prediction is the probabilities of the labels, float64 `[labels]`.
    """

    name = "text_classification"
    loss_settings = ("class_weights", "label_smoothing")

    def model_arguments(self):
        """Returns the number of labels and their names."""
        return {"num_labels": len(self.labels), "labels": self.labels}

    def make_loss(self, **settings):
        """Returns the cross-entropy of the labels."""
        from albert_tf.finetuning.losses import CrossEntropyLoss

        return CrossEntropyLoss(**settings)

    def predictions(self, examples, features, outputs):
        """Returns the probabilities of the labels."""
        return [softmax(output["logits"]) for output in outputs]

    def record(self, example, prediction):
        """Returns the most likely label and all probabilities."""
        probabilities = map(float, prediction)
        return {
            "id": example.id,
            "label": self.labels[int(np.argmax(prediction))],
            "probabilities": dict(zip(self.labels, probabilities, strict=True)),
        }

    def scores(self, examples, predictions):
        """Returns the task's metrics and the mean cross-entropy."""
        labels = self._label_ids(examples)
        return label_scores(self.task_config.metrics, predictions, labels)

    def check_scores(self, examples):
        """Checks the metrics by scoring the labels themselves."""
        labels = self._label_ids(examples)
        classification_metrics(self.task_config.metrics, labels, labels)

    def baselines(self, training, examples):
        """Returns the scores of `class_baselines`."""
        return class_baselines(
            self.task_config.metrics, self.labels, training, examples
        )

    def serving_outputs(self, logits):
        """Returns `logits`, `probabilities` and the most likely `label`."""
        import tensorflow as tf

        best = tf.argmax(logits, axis=-1, output_type=tf.int32)
        return {
            "logits": logits,
            "probabilities": tf.nn.softmax(logits),
            "label": tf.gather(tf.constant(self.labels), best),
        }

    def runtime_outputs(self, model, batch):
        """Returns `probabilities` `[batch, labels]`."""
        import tensorflow as tf

        logits = self.forward(model, batch)["logits"]
        return {"probabilities": tf.nn.softmax(logits)}

    def serving_arrays(self, examples, predictions):
        """Returns the texts and the probabilities."""
        outputs = {"probabilities": np.array(predictions)}
        return self.serving_inputs(examples), outputs

    def _label_ids(self, examples: Sequence[TextExample]) -> list[int]:
        ids: dict[str | float | None, int] = {
            label: i for i, label in enumerate(self.labels)
        }
        return [ids[example.label] for example in examples]


class Regression(TextTaskType):
    """Regression of texts or text pairs; a prediction is a float."""

    name = "regression"

    def model_arguments(self):
        """Returns a single output."""
        return {"num_labels": 1}

    def start_head(self, model, features):
        """Sets the bias to the mean label, the best constant prediction."""
        head = getattr(model, model.HEAD)
        head.bias.assign([features.columns[LABELS].mean()])

    def make_loss(self, **settings):
        """Returns the squared error of the numbers."""
        from albert_tf.finetuning.text_classification.model import (
            RegressionLoss,
        )

        return RegressionLoss()

    def predictions(self, examples, features, outputs):
        """Returns the numbers."""
        return [float(output["logits"][0]) for output in outputs]

    def record(self, example, prediction):
        """Returns the number."""
        return {"id": example.id, "value": float(prediction)}

    def scores(self, examples, predictions):
        """Returns the task's metrics and the mean squared error."""
        labels = np.array([example.label for example in examples], float)
        values = np.array(predictions)
        loss = float(np.mean((values - labels) ** 2))
        metrics = self.task_config.metrics
        return classification_metrics(metrics, values, labels) | {"loss": loss}

    def check_scores(self, examples):
        """Checks the metrics by scoring the labels themselves."""
        labels = np.array([example.label for example in examples], float)
        classification_metrics(self.task_config.metrics, labels, labels)

    def baselines(self, training, examples):
        """Returns the scores of `number_baselines`."""
        return number_baselines(self.task_config.metrics, training, examples)

    def serving_outputs(self, logits):
        """Returns `value` `[batch]`."""
        return {"value": logits[:, 0]}

    def serving_arrays(self, examples, predictions):
        """Returns the texts and the numbers."""
        outputs = {"value": np.array(predictions)}
        return self.serving_inputs(examples), outputs


def text_task_config(task: TextTask) -> TaskConfig:
    """Converts a task to the configuration of its task type."""
    task_type = Regression if task.labels is None else TextClassification
    return task_type.config_of(task)
