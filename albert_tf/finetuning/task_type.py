"""Base class of task types."""

from __future__ import annotations

import abc
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from albert_tf.errors import InputError
from albert_tf.finetuning.examples import BadExamples
from albert_tf.finetuning.features import Features
from albert_tf.finetuning.library_datasets import DatasetRows
from albert_tf.finetuning.table_writing import Layout
from albert_tf.finetuning.task_config import DEFAULT_SETTINGS, TaskConfig
from albert_tf.text.packing import ENCODER_INPUTS

if TYPE_CHECKING:
    import tensorflow as tf

    from albert_tf.models.base import AlbertModel
    from albert_tf.text.base_tokenizer import Tokenizer
    from albert_tf.text.preprocessor import GraphPreprocessor
    from albert_tf.training.loss import Loss

    Tensors = Mapping[str, tf.Tensor]

Arrays = Mapping[str, np.ndarray]
WordEmbeddings = Callable[[], np.ndarray | None]


class TaskType(abc.ABC):
    """Base class of task types such as text classification.

    The methods, in the order in which a run calls them: `read_examples`,
    `features`, `model_class` and `model_arguments`, `prepare_model`,
    `make_loss`, `forward`, `predictions`, `scores`; and for exports `serve`.
    What a type declares are class attributes and properties.
    `register_task_type` makes it available to all commands. docs/task_types.md
    walks through an example.

    Modules of task types are imported to parse flags, so they import
    TensorFlow, models, losses and serving graphs inside of methods.

    Attributes:
      name: name of the task type in `task.json`.
      known_tasks: tasks that `albert finetune --task` takes by name.
      default_settings: default values of the settings of features and
        predictions, as JSON values; at least `max_seq_length`.
      optional_settings: further settings, which a task only has if they differ
        from these values.
      learns_labels: whether the labels are those of the training examples,
        which have `labels`.
      custom_metrics: whether users may choose `TaskConfig.metrics`.
      metric_names: the metrics that they may choose; empty for any. Not
        inherited.
      lower_is_better: metrics that are errors, besides those whose name has
        "loss".
      perfect_score: the best possible value of the key metric.
      loss_settings: settings of the loss that the task type has:
        "class_weights", "label_smoothing", "temperature".
      has_head: whether the models have a head, with a dropout before it.
      has_ensembles: whether the predictions of several models have a mean.
      runtime_outputs: outputs of `forward` that exports of ids (LiteRT, ONNX,
        OpenVINO) return; empty for all.
      optional_texts: texts that an example may have besides the first form's.
      layout: how predictions are written to tables.
      task_config: the task.

    Args:
      task_config: the task.
      tokenizer: tokenizer of the model; required for features and serving
        graphs.

    Raises:
      InputError: if the settings contradict each other.
    """

    name: ClassVar[str]
    known_tasks: ClassVar[Sequence[TaskConfig]] = ()
    default_settings: ClassVar[Mapping[str, Any]] = DEFAULT_SETTINGS
    optional_settings: ClassVar[Mapping[str, Any]] = {}
    learns_labels: ClassVar[bool] = False
    custom_metrics: ClassVar[bool] = True
    metric_names: ClassVar[Sequence[str]] = ()
    lower_is_better: ClassVar[Sequence[str]] = ()
    perfect_score: ClassVar[float] = 1.0
    loss_settings: ClassVar[Sequence[str]] = ()
    has_head: ClassVar[bool] = True
    has_ensembles: ClassVar[bool] = True
    runtime_outputs: ClassVar[Sequence[str]] = ()
    optional_texts: ClassVar[Sequence[str]] = ()
    layout: ClassVar[Layout] = "row"

    def __init__(
        self, task_config: TaskConfig, tokenizer: Tokenizer | None = None
    ):
        self.task_config = task_config
        self._tokenizer = tokenizer
        if self.max_seq_length < self.min_seq_length:
            raise InputError(
                f"max_seq_length={self.max_seq_length} must be at least "
                f"{self.min_seq_length}, to hold [CLS], [SEP] and one piece of "
                "each text"
            )
        self.check_settings()

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        if self._tokenizer is None:
            raise ValueError(f"{type(self).__name__} has no tokenizer")
        return self._tokenizer

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the task; empty if the task type has none."""
        return self.task_config.labels or ()

    @property
    def max_seq_length(self) -> int:
        """Maximum number of tokens in a sequence."""
        return self.task_config.settings["max_seq_length"]

    @property
    def min_seq_length(self) -> int:
        """Minimum of `max_seq_length`."""
        return 3

    @property
    def model_inputs(self) -> tuple[str, ...]:
        """Names of the features that are inputs of the model."""
        return ENCODER_INPUTS

    @property
    def serving_forms(self) -> Mapping[str, Mapping[str, int]]:
        """Ranks of the inputs of exports, strings, by signature and name.

        The names are in the order of positional arguments. An input `text` can
        be read from a line of standard input.
        """
        return {"serving_default": {"text": 1}}

    def check_settings(self) -> None:
        """Raises an `InputError` if settings contradict each other."""
        return

    # Examples. They have the attributes `id`, `location` ("file:line"), and
    # `has_label`: whether they have the label that scores need.

    @abc.abstractmethod
    def read_examples(
        self,
        source: str | os.PathLike[str] | list[DatasetRows],
        *,
        bad: BadExamples,
        labelled: bool,
        training: bool = False,
    ) -> Iterator[Any]:
        """Yields the examples of a file or folder, or of a library's datasets.

        Args:
          source: the file or folder; or, for the tasks of `library_datasets`,
            the datasets that make up the task, usually one.
          bad: collects examples that cannot be used.
          labelled: whether to read labels.
          training: whether the examples are for training. If so, examples that
            can be scored but not trained on are bad, too.

        Raises:
          InputError: if the source cannot be read, or `labelled` is set for a
            split whose labels are not published.
        """

    @abc.abstractmethod
    def example(self, texts: Mapping[str, Any], id: str, location: str) -> Any:
        """Makes an unlabelled example.

        Args:
          texts: strings by name, or for inputs of rank 2 lists of them: those
            of the first of `serving_forms`, where `text_pair` is `pair`, and
            any of `optional_texts`.
          id: ID of the example.
          location: location of the example, for error messages.

        Raises:
          InputError: if a text is not valid; callers add the location.
        """

    @abc.abstractmethod
    def features(self, examples: Iterable[Any], *, labelled: bool) -> Features:
        """Returns features of examples.

        Args:
          examples: the examples; iterated over once.
          labelled: whether to add the labels, for training.

        Raises:
          InputError: if `labelled`, and a label is missing or not one of the
            task's.
        """

    def describe_examples(self, features: Features) -> str:
        """Returns what the examples of training features are called."""
        return "examples"

    # Model and loss.

    @property
    @abc.abstractmethod
    def model_class(self) -> type[AlbertModel]:
        """Class of the models."""

    def model_arguments(self) -> dict[str, Any]:
        """Returns the arguments of `model_class` that depend on the task.

        By default, these are the labels, if it has any.
        """
        if not self.labels:
            return {}
        return {"num_labels": len(self.labels), "labels": self.labels}

    def prepare_model(
        self, model: AlbertModel, features: Features, micro_batch_size: int
    ) -> None:
        """Sets weights of a new head, and checks that it can be trained.

        By default, nothing is done. Regression starts at the mean label.

        Args:
          model: the model, before the first step.
          features: the training features.
          micro_batch_size: examples per replica and micro-batch.

        Raises:
          InputError: if the model cannot be trained on the features.
        """
        del model, features, micro_batch_size

    @abc.abstractmethod
    def make_loss(self, **settings: Any) -> Loss:
        """Returns the training loss.

        Args:
          **settings: those of `loss_settings` that are given: `class_weights`,
            a number for each of `labels`, `label_smoothing`, `temperature`.
        """

    def forward(self, model: AlbertModel, batch: Tensors) -> Tensors:
        """Returns the model's outputs for a batch; runs in a graph.

        Args:
          model: the model.
          batch: a batch of features, see `Features.pad`.

        Returns:
          Outputs by name, each `[batch, ...]`, as `predictions` takes them.
        """
        return {"logits": model({x: batch[x] for x in self.model_inputs})}

    # Predictions.

    @abc.abstractmethod
    def predictions(
        self,
        examples: Sequence[Any],
        features: Features,
        outputs: Sequence[Arrays],
    ) -> list[Any]:
        """Returns a prediction for each example.

        Args:
          examples: the examples.
          features: their features, without labels.
          outputs: outputs of `forward` for each example of `features`; those of
            tokens may be padded.
        """

    def average(self, members: Mapping[str, Sequence[Any]]) -> list[Any]:
        """Averages the predictions of the models of an ensemble.

        By default, predictions are numbers or arrays, and their mean is
        returned, as in the paper's ensembles.

        Args:
          members: predictions by path of the model.
        """
        groups = zip(*members.values(), strict=True)
        return [np.mean(group, axis=0) for group in groups]

    @abc.abstractmethod
    def record(self, example: Any, prediction: Any) -> dict[str, Any]:
        """Returns a prediction as a dict of JSON values, `id` first."""

    # Scores.

    @abc.abstractmethod
    def scores(
        self, examples: Sequence[Any], predictions: Sequence[Any]
    ) -> dict[str, float]:
        """Returns scores by metric, the key metric first.

        Args:
          examples: examples with labels.
          predictions: a prediction for each example.
        """

    def tune(
        self, examples: Sequence[Any], predictions: Sequence[Any]
    ) -> dict[str, float]:
        """Returns settings of the task that give the best `scores`.

        `scores` returns them, too. By default, there are none; SQuAD 2.0 has a
        threshold. Arguments are those of `scores`.
        """
        return {}

    def metrics_for(self, examples: Sequence[Any]) -> Sequence[str]:
        """Returns the metrics to score labelled examples by: the task's."""
        return self.task_config.metrics

    def num_scored(self, examples: Sequence[Any]) -> int:
        """Returns how many predictions the scores of examples are means of."""
        return len(examples)

    def check_scores(self, examples: Sequence[Any]) -> None:
        """Checks before training that predictions of examples can be scored.

        By default, any can.

        Args:
          examples: examples with labels.

        Raises:
          InputError: if a metric is not defined for the labels, or a package
            that it needs is not installed.
        """
        del examples

    def baselines(
        self,
        training: Iterable[Any],
        examples: Sequence[Any],
        word_embeddings: WordEmbeddings | None = None,
    ) -> dict[str, dict[str, float]]:
        """Returns scores of trivial predictions, to compare the model with.

        They should take seconds. By default, there are none.

        Args:
          training: training examples with labels; an iterator, which may be
            left unread.
          examples: examples with labels, to be scored.
          word_embeddings: reads those that the run starts from, float32
            `[vocab_size, embedding_size]`, or None if they are gone.

        Returns:
          Scores by name of the baseline, such as "most frequent label". The
          first one needs no training; a model at its level has learned nothing.
        """
        return {}

    # Exports.

    @abc.abstractmethod
    def serve(
        self,
        preprocessor: GraphPreprocessor,
        model: Callable[[Tensors], Any],
        inputs: Tensors,
    ) -> Tensors:
        """Computes predictions from strings, as an export does.

        `tf.function` traces it without AutoGraph. It must support empty strings
        and empty batches.

        Args:
          preprocessor: tokenizes strings.
          model: maps the inputs of the fine-tuned model to its outputs.
          inputs: strings by name, see `serving_forms`.

        Returns:
          Outputs by name, dense tensors `[batch, ...]`, so that servers can
          split batches.
        """

    def served(self, prediction: Any) -> dict[str, Any]:
        """Returns the outputs of `serve` that a prediction stands for.

        `albert export --check` compares them, without outputs that depend on
        rounding, such as the most likely label. By default, a prediction is
        the `probabilities`.
        """
        return {"probabilities": prediction}
