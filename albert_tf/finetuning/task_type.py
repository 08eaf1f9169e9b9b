"""Base class of task types."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from albert_tf.errors import InputError
from albert_tf.finetuning.example_reader import ExampleReader
from albert_tf.finetuning.features import INPUTS, Features
from albert_tf.finetuning.table_writer import table_lines
from albert_tf.finetuning.task_config import TaskConfig

if TYPE_CHECKING:
    import tensorflow as tf

    from albert_tf.config import AlbertConfig
    from albert_tf.finetuning.serving import ServingGraph
    from albert_tf.models.base import AlbertModel
    from albert_tf.text.base_tokenizer import Tokenizer
    from albert_tf.text.preprocessor import GraphPreprocessor
    from albert_tf.training.loss import Loss

    Tensors = Mapping[str, tf.Tensor]

Arrays = Mapping[str, np.ndarray]


class TaskType(ExampleReader):
    """Base class of task types such as text classification.

    A subclass defines how examples are read and tokenized, the model and its
    loss, how predictions are made, scored, averaged and written, and the inputs
    and outputs of exported models. `register_task_type` makes it available to
    all commands. docs/task_types.md walks through an example.

    Modules of task types are imported to parse flags, so they import
    TensorFlow, models, losses and serving graphs inside of methods.

    Attributes:
      name: name of the task type in `task.json`.
      default_settings: default values of the settings of features and
        predictions, as JSON values; at least `max_seq_length`.
      optional_settings: further settings, which a task only has if they differ
        from these values.
      custom_metrics: whether users may choose `TaskConfig.metrics`.
      loss_settings: settings of the loss that the task type has:
        "class_weights", "label_smoothing", "temperature".
      has_head: whether the models have a head, with a dropout before it.
      perfect_score: the best possible value of the key metric.
      task_config: the task.

    Args:
      task_config: the task.
      tokenizer: tokenizer of the model; required for features and serving
        graphs.
    """

    name: ClassVar[str]
    default_settings: ClassVar[Mapping[str, Any]] = {"max_seq_length": 512}
    optional_settings: ClassVar[dict[str, Any]] = {}
    custom_metrics: ClassVar[bool] = True
    loss_settings: ClassVar[Sequence[str]] = ()
    has_head: ClassVar[bool] = True
    perfect_score: ClassVar[float] = 1.0

    def __init__(
        self, task_config: TaskConfig, tokenizer: Tokenizer | None = None
    ):
        self.task_config = task_config
        self._tokenizer = tokenizer
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
    def has_pairs(self) -> bool:
        """Whether a sequence is always of two texts."""
        return False

    @property
    def max_seq_length(self) -> int:
        """Maximum number of tokens in a sequence."""
        return self.task_config.settings["max_seq_length"]

    # Tasks and their settings.

    @classmethod
    def known_tasks(cls) -> Sequence[TaskConfig]:
        """Returns the tasks that `albert finetune --task` takes by name."""
        return ()

    def check_settings(self) -> None:
        """Raises an `InputError` if settings contradict each other."""
        return

    def require_length(self, minimum: int) -> None:
        """Raises an `InputError` if `max_seq_length` is below `minimum`."""
        if self.max_seq_length < minimum:
            raise InputError(
                f"max_seq_length={self.max_seq_length} must be at least "
                f"{minimum}, to hold [CLS], [SEP] and one piece of each text"
            )

    def learn_labels(self, examples: Iterable[Any]) -> TaskConfig:
        """Returns the task, completed from the training examples.

        By default it is returned unchanged. Token classification collects its
        labels here.

        Args:
          examples: training examples with labels; an iterator.
        """
        del examples
        return self.task_config

    # Features.

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

    # Model and loss.

    @property
    @abc.abstractmethod
    def model_class(self) -> type[AlbertModel]:
        """Class of the models."""

    @abc.abstractmethod
    def model_arguments(self) -> dict[str, Any]:
        """Returns the arguments of `model_class` that depend on the task."""

    def check_training(
        self, features: Features, config: AlbertConfig, micro_batch_size: int
    ) -> None:
        """Raises an `InputError` if a model cannot be trained on features.

        By default, it can.

        Args:
          features: the training features.
          config: the architecture.
          micro_batch_size: examples per replica and micro-batch.
        """
        del features, config, micro_batch_size

    def start_head(self, model: AlbertModel, features: Features) -> None:
        """Sets weights of a new head from the training examples.

        By default, nothing is set. Regression starts at the mean label.

        Args:
          model: the model.
          features: the training features.
        """
        del model, features

    @abc.abstractmethod
    def make_loss(self, **settings: Any) -> Loss:
        """Returns the training loss.

        Args:
          **settings: those of `loss_settings` that are given: `class_weights`,
            a number for each of `labels`, `label_smoothing`, `temperature`.
        """

    def baselines(
        self, training: Iterable[Any], examples: Sequence[Any]
    ) -> dict[str, dict[str, float]]:
        """Returns scores of trivial predictions, to compare the model with.

        They should take seconds. By default, there are none.

        Args:
          training: training examples with labels; an iterator, which may be
            left unread.
          examples: examples with labels, to be scored.

        Returns:
          Scores by name of the baseline, such as "most frequent label". The
          first one needs no training; a model at its level has learned nothing.
        """
        del training, examples
        return {}

    def word_baselines(
        self,
        word_embeddings: Callable[[], np.ndarray],
        examples: Sequence[Any],
    ) -> dict[str, dict[str, float]]:
        """Returns scores of the word embeddings that the run starts from.

        They precede the other `baselines`. By default, there are none.

        Args:
          word_embeddings: reads the table, float32 `[vocab_size,
            embedding_size]`.
          examples: examples with labels, to be scored.
        """
        del word_embeddings, examples
        return {}

    @property
    def model_inputs(self) -> tuple[str, ...]:
        """Names of the features that `forward` passes to the model."""
        return INPUTS

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

        Raises:
          InputError: if the predictions of a model are not finite.
        """
        for name, predictions in members.items():
            if not all(np.isfinite(x).all() for x in predictions):
                raise InputError(
                    f"model {name}: its predictions are not finite; the model "
                    "has diverged"
                )
        groups = zip(*members.values(), strict=True)
        return [np.mean(group, axis=0) for group in groups]

    def ensemble_config(self, members: Sequence[TaskConfig]) -> TaskConfig:
        """Returns the task of an ensemble of `members`, the first this one."""
        del members
        return self.task_config

    @abc.abstractmethod
    def record(self, example: Any, prediction: Any) -> dict[str, Any]:
        """Returns a prediction as a dict of JSON values, `id` first."""

    def table_rows(self, record: Mapping[str, Any]) -> Sequence[Mapping]:
        """Returns the rows of a `record` in a CSV file, by default itself.

        They have a column for each value but lists; nested dicts are flattened.
        """
        return [record]

    def tsv_lines(self, record: Mapping[str, Any], *, first: bool) -> list[str]:
        """Formats a `record` as lines of a TSV file, the `first` with a header.

        By default as lines with the columns of `table_rows`.
        """
        return [
            line
            for number, row in enumerate(self.table_rows(record))
            for line in table_lines(row, header=first and not number)
        ]

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

    def written_scores(
        self, examples: Sequence[Any], predictions: Sequence[Any]
    ) -> dict[str, float]:
        """Returns scores with the task's settings, not those that fit best."""
        return self.scores(examples, predictions)

    @abc.abstractmethod
    def check_scores(self, examples: Sequence[Any]) -> None:
        """Checks before training that predictions of examples can be scored.

        Args:
          examples: examples with labels.

        Raises:
          InputError: if a metric is not defined for the labels, or a package
            that it needs is not installed.
        """

    def with_scores(self, scores: Mapping[str, float]) -> TaskConfig:
        """Returns the task, updated from the scores of the final model.

        By default it is returned unchanged. SQuAD 2.0 stores its threshold,
        according to the scores on the development set.
        """
        del scores
        return self.task_config

    # Exports.

    @property
    def serving_forms(self) -> Mapping[str, Mapping[str, int]]:
        """Ranks of the inputs of exports, strings, by signature and name.

        By default, they take `text` `[batch]`. The names are in the order of
        positional arguments.
        """
        return {"serving_default": {"text": 1}}

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

    def serving_graph(
        self, model: AlbertModel, *, packed: bool = True
    ) -> ServingGraph:
        """Returns the `ServingGraph` of `serve`."""
        from albert_tf.finetuning.serving import ServingGraph

        return ServingGraph(self, model, packed=packed)

    def runtime_outputs(self, model: AlbertModel, batch: Tensors) -> Tensors:
        """Like `forward`, but for exports of ids (LiteRT, ONNX, OpenVINO)."""
        return self.forward(model, batch)

    @abc.abstractmethod
    def sample_examples(self, texts: Sequence[str]) -> list[Any]:
        """Makes unlabelled examples from arbitrary texts.

        `albert export --check` compares the export with the model on them.

        Args:
          texts: the texts; some may be empty.
        """

    @abc.abstractmethod
    def serving_arrays(
        self, examples: Sequence[Any], predictions: Sequence[Any]
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Returns inputs of the serving graph and their expected outputs.

        Args:
          examples: see `sample_examples`.
          predictions: a prediction for each example.

        Returns:
          Lists of strings by input, and arrays by output, without outputs that
          depend on rounding, such as the most likely label.
        """
