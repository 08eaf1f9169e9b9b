"""Task types of text classification and regression."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from albert_tf.errors import InputError
from albert_tf.finetuning.features import LABELS
from albert_tf.finetuning.metrics import (
    CLASS_METRICS,
    NUMBER_METRICS,
    classification_metrics,
    label_scores,
    softmax,
)
from albert_tf.finetuning.task_type import TaskType
from albert_tf.finetuning.text_classification.baselines import (
    class_baselines,
    number_baselines,
)
from albert_tf.finetuning.text_classification.examples import (
    TextExample,
    TextTask,
    read_texts,
    text_task_config,
)
from albert_tf.finetuning.text_classification.glue import GLUE, glue_examples
from albert_tf.schema import check_type

_HEADS = ("cls", "pair_features")
_GLUE = tuple(map(text_task_config, GLUE.values()))


class TextTaskType(TaskType):
    """Base class of task types for texts and text pairs.

    Models are `AlbertClassifier`s, or `AlbertPairClassifier`s with the setting
    `head="pair_features"`. Exports take the texts and return `outputs`.
    """

    optional_settings: ClassVar = {"head": "cls"}

    def check_settings(self):
        """Checks `source` and the head."""
        source = self.task_config.source
        if source.get("reader") == "texts":
            check_type(source, TextTask, f"source of {self.task_config.name}")
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

    @property
    def min_seq_length(self):
        """Makes room for two pieces, or for one of each text."""
        return 5 if self.has_pairs else 4

    @property
    def serving_forms(self):
        """Exports take `text` and, for pairs, `text_pair` `[batch]`."""
        names = ["text", "text_pair"] if self.has_pairs else ["text"]
        return {"serving_default": dict.fromkeys(names, 1)}

    def read_examples(self, source, *, bad, labelled, training=False):
        """Reads the rows of a table, see `read_texts`, or a dataset of GLUE."""
        if isinstance(source, list):
            [dataset] = source
            return glue_examples(
                self.task_config.name, dataset, bad=bad, labelled=labelled
            )
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
        return read_texts(task, source, bad=bad, **needs)

    def example(self, texts, id, location):
        """Makes an example from `text` and, for pairs, `pair`."""
        return TextExample(id=id, location=location, **texts)

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

    @abc.abstractmethod
    def outputs(self, logits: Any) -> dict[str, Any]:
        """Returns outputs by name, `[batch, ...]`, for the model's logits."""

    def forward(self, model, batch):
        """Returns the `outputs` for a batch."""
        return self.outputs(super().forward(model, batch)["logits"])

    def serve(self, preprocessor, model, inputs):
        """Returns the `outputs` for texts."""
        from albert_tf.finetuning.serving import text_sequences

        [names] = self.serving_forms.values()
        texts = [inputs[name] for name in names]
        return self.outputs(
            model(text_sequences(preprocessor, texts, self.max_seq_length))
        )


class TextClassification(TextTaskType):
    """Classification of texts or text pairs.

    A prediction is the probabilities of the labels, float64 `[labels]`.
    """

    name = "text_classification"
    metric_names = CLASS_METRICS
    known_tasks = tuple(x for x in _GLUE if x.labels is not None)
    loss_settings = ("class_weights", "label_smoothing")
    runtime_outputs = ("probabilities",)

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
        # The model may predict labels that these examples do not have.
        labels = [*self._label_ids(examples), *range(len(self.labels))]
        classification_metrics(self.task_config.metrics, labels, labels)

    def baselines(self, training, examples, word_embeddings=None):
        """Returns the scores of `class_baselines`."""
        return class_baselines(
            self.task_config.metrics, self.labels, training, examples
        )

    def outputs(self, logits):
        """Returns `logits` and `probabilities` `[batch, labels]`."""
        import tensorflow as tf

        return {"logits": logits, "probabilities": tf.nn.softmax(logits)}

    def serve(self, preprocessor, model, inputs):
        """Returns the `outputs` and the most likely `label`."""
        import tensorflow as tf

        outputs = super().serve(preprocessor, model, inputs)
        best = tf.argmax(outputs["logits"], axis=-1, output_type=tf.int32)
        return outputs | {"label": tf.gather(tf.constant(self.labels), best)}

    def _label_ids(self, examples: Sequence[TextExample]) -> list[int]:
        ids: dict[str | float | None, int] = {
            label: i for i, label in enumerate(self.labels)
        }
        return [ids[example.label] for example in examples]


class Regression(TextTaskType):
    """Regression of texts or text pairs; a prediction is a float."""

    name = "regression"
    metric_names = NUMBER_METRICS
    known_tasks = tuple(x for x in _GLUE if x.labels is None)

    def model_arguments(self):
        """Returns a single output."""
        return {"num_labels": 1}

    def prepare_model(self, model, features, micro_batch_size):
        """Sets the bias to the mean label, the best constant prediction."""
        head = getattr(model, model.HEAD)
        head.bias.assign([features.columns[LABELS].mean()])

    def make_loss(self, **settings):
        """Returns the squared error of the numbers."""
        from albert_tf.finetuning.text_classification import model

        return model.RegressionLoss()

    def predictions(self, examples, features, outputs):
        """Returns the numbers."""
        return [float(output["value"]) for output in outputs]

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

    def baselines(self, training, examples, word_embeddings=None):
        """Returns the scores of `number_baselines`."""
        return number_baselines(self.task_config.metrics, training, examples)

    def outputs(self, logits):
        """Returns `value` `[batch]`."""
        return {"value": logits[:, 0]}

    def served(self, prediction):
        """Returns the number as `value`."""
        return {"value": prediction}
