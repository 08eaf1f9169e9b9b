"""Base class of task types: everything that depends on the type of a task."""

from __future__ import annotations

import abc
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from albert_tf.errors import InputError
from albert_tf.finetuning.examples import BadExamples
from albert_tf.finetuning.features import INPUTS, Features
from albert_tf.finetuning.library_datasets import DatasetRows
from albert_tf.finetuning.tables import table_lines
from albert_tf.finetuning.task_config import TaskConfig, split_path

if TYPE_CHECKING:
    import os

    import tensorflow as tf

    from albert_tf.finetuning.serving import ServingGraph
    from albert_tf.models.base import AlbertModel
    from albert_tf.text.base_tokenizer import Tokenizer
    from albert_tf.training.loss import Loss

    Tensors = Mapping[str, tf.Tensor]

Arrays = Mapping[str, np.ndarray]


class TaskType(abc.ABC):
    """A type of task, from its files to its exported models.

    A subclass declares in one place how examples are read and tokenized, which
    model and loss learn them, what a prediction is and how it is scored,
    averaged and written, and what an exported model takes and returns.
    `register_task_type` makes it known to all commands. docs/task_types.md
    walks through an example.

    Modules of task types are imported to parse flags: TensorFlow, models,
    losses and serving graphs are imported inside of the methods.

    Attributes:
      name: the task type's name in `task.json`.
      default_settings: settings of the features and predictions, with their
        defaults, as JSON values; at least `max_seq_length`.
      custom_metrics: whether `TaskConfig.metrics` may be chosen by the user.
      reads_lines: whether a line of text is an example.
      token_outputs: names of outputs of `forward` shaped `[batch, seq, ...]`.
      task_config: the task.

    Args:
      task_config: the task.
      tokenizer: the model's tokenizer; needed for features and serving graphs.
    """

    name: ClassVar[str]
    default_settings: ClassVar[Mapping[str, Any]] = {"max_seq_length": 512}
    custom_metrics: ClassVar[bool] = True
    reads_lines: ClassVar[bool] = False

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
    def token_outputs(self) -> tuple[str, ...]:
        """See the class."""
        return ()

    @property
    def labels(self) -> tuple[str, ...]:
        """The task's labels; empty if the task type has none."""
        return self.task_config.labels or ()

    @property
    def max_seq_length(self) -> int:
        """Maximum number of tokens of a sequence."""
        return self.task_config.settings["max_seq_length"]

    # Tasks and their settings.

    @classmethod
    def known_tasks(cls) -> Sequence[TaskConfig]:
        """Returns the tasks that `albert finetune --task` knows by name."""
        return ()

    def check_settings(self) -> None:
        """Raises an `InputError` if settings contradict each other."""
        return

    def require_length(self, least: int) -> None:
        """Raises an `InputError` if `max_seq_length` is below `least`."""
        if self.max_seq_length < least:
            raise InputError(
                f"max_seq_length={self.max_seq_length} must be at least "
                f"{least}, to hold [CLS], [SEP] and a piece of each text"
            )

    def learn_labels(self, examples: Iterable[Any]) -> TaskConfig:
        """Returns the task with what training examples decide, e.g. its labels.

        Args:
          examples: the training examples with labels, read lazily.
        """
        del examples
        return self.task_config

    # Examples. An example has the attributes `id` and `location`, "file:line".

    def find_split(
        self, data_dir: str | os.PathLike[str], split: str
    ) -> pathlib.Path:
        """Returns the file or folder of a split; see `split_path`."""
        return split_path(self.task_config, data_dir, split)

    @abc.abstractmethod
    def read_examples(
        self,
        path: str | os.PathLike[str],
        *,
        bad: BadExamples,
        labelled: bool,
        training: bool = False,
    ) -> Iterator[Any]:
        """Yields the examples of a file, or of a folder.

        Args:
          path: the file or folder.
          bad: collects examples that cannot be used.
          labelled: whether labels are read.
          training: whether the examples are for training, so that those that
            can be scored but not learnt are bad.

        Raises:
          InputError: the file cannot be read.
        """

    def read_dataset(
        self,
        parts: Sequence[DatasetRows],
        *,
        bad: BadExamples,
        labelled: bool,
        training: bool = False,
    ) -> Iterator[Any]:
        """Makes examples of the rows of a library's data sets.

        Args:
          parts: the data sets of the task, usually one.
          bad, labelled, training: see `read_examples`.

        Raises:
          InputError: a field is missing, or labels are wanted and hidden.
        """
        raise InputError(
            f"from: no library has the task {self.task_config.name}; name its "
            "files"
        )

    def example_from_line(self, line: str, id: str, location: str) -> Any:
        """Makes an example without label from a line of standard input.

        Args:
          line: the line, with or without its line feed; not blank.
          id: the example's ID.
          location: the line's location, for errors.
        """
        raise InputError(
            f"{location}: the task {self.task_config.name} does not read "
            "examples from lines; name a file in its format"
        )

    def example_from_fields(self, fields: Mapping[str, str], id: str) -> Any:
        """Makes an example without label from texts by name.

        Args:
          fields: texts by name, such as those of `--text` and `--pair`.
          id: the example's ID.
        """
        raise InputError(
            f"--{next(iter(fields))}: the task {self.task_config.name} does "
            "not take an example from flags; name a file with --input"
        )

    def has_label(self, example: Any) -> bool:
        """Returns whether an example can be scored."""
        return example.label is not None

    # Features.

    @abc.abstractmethod
    def training_features(self, examples: Iterable[Any]) -> Features:
        """Returns features with labels.

        Args:
          examples: examples with labels; read once.

        Raises:
          InputError: an example's label is missing or not one of the task's.
        """

    @abc.abstractmethod
    def prediction_features(self, examples: Sequence[Any]) -> Features:
        """Returns features without labels, also of examples without labels."""

    # Model and loss.

    @property
    @abc.abstractmethod
    def model_class(self) -> type[AlbertModel]:
        """Class of the models."""

    @abc.abstractmethod
    def model_arguments(self) -> dict[str, Any]:
        """Returns the arguments of `model_class` that the task decides."""

    @abc.abstractmethod
    def make_loss(self) -> Loss:
        """Returns the training loss."""

    @property
    def model_inputs(self) -> tuple[str, ...]:
        """Names of the features that `forward` passes to the model."""
        return INPUTS

    def forward(self, model: AlbertModel, batch: Tensors) -> Tensors:
        """Returns the outputs that predictions are made from; in a graph.

        Args:
          model: the model.
          batch: the batch of features, see `Features.pad`.
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
          features: their `prediction_features`.
          outputs: the outputs of `forward` for each example of `features`.
        """

    def average(self, members: Mapping[str, Sequence[Any]]) -> list[Any]:
        """Returns the predictions of an ensemble.

        By default, predictions are numbers or arrays, such as probabilities,
        and their mean is taken, as for the paper's ensembles.

        Args:
          members: the predictions of each model, by its path.

        Raises:
          InputError: the predictions of a model are not finite.
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
        """Returns the task by which averaged predictions are decoded.

        Args:
          members: the tasks of the models, this one's first.
        """
        del members
        return self.task_config

    @abc.abstractmethod
    def record(self, example: Any, prediction: Any) -> dict[str, Any]:
        """Returns a prediction as JSON values, `id` first."""

    def tsv_lines(self, record: Mapping[str, Any], *, first: bool) -> list[str]:
        """Returns the lines of a TSV file that hold a record.

        A line has a column for each value that is not a list; nested values
        have columns of their own.

        Args:
          record: see `record`.
          first: whether the lines begin the file, and thus need a header.
        """
        return table_lines(record, header=first)

    # Scores.

    @abc.abstractmethod
    def scores(
        self, examples: Sequence[Any], predictions: Sequence[Any]
    ) -> dict[str, float]:
        """Returns the task's scores by metric, the key metric first.

        Args:
          examples: examples with labels.
          predictions: a prediction for each.
        """

    @abc.abstractmethod
    def check_scores(self, examples: Sequence[Any]) -> None:
        """Checks before training that predictions of examples can be scored.

        Args:
          examples: examples with labels.

        Raises:
          InputError: a metric does not fit the labels, or a package that it
            needs is not installed.
        """

    def with_scores(self, scores: Mapping[str, float]) -> TaskConfig:
        """Returns the task with what the scores decide, such as a threshold.

        Args:
          scores: the scores of the final model on the development set.
        """
        del scores
        return self.task_config

    # Exports.

    @abc.abstractmethod
    def serving_graph(
        self, model: AlbertModel, *, packed: bool = True
    ) -> ServingGraph:
        """Returns the exported function from strings to predictions.

        Args:
          model: the fine-tuned model.
          packed: see `AlbertEncoder`.

        Raises:
          InputError: settings and model do not fit together.
        """

    def litert_outputs(self, model: AlbertModel, batch: Tensors) -> Tensors:
        """Returns the outputs of exports that take ids, as `forward` does."""
        return self.forward(model, batch)

    @abc.abstractmethod
    def sample_examples(self, texts: Sequence[str]) -> list[Any]:
        """Returns examples without labels made from any texts.

        `albert export --check` compares an export with its source on them.

        Args:
          texts: some texts; one may be empty.
        """

    @abc.abstractmethod
    def serving_arrays(
        self, examples: Sequence[Any], predictions: Sequence[Any]
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Returns inputs of the serving graph and the expected outputs.

        Args:
          examples: see `sample_examples`.
          predictions: a prediction for each.

        Returns:
          Lists of strings by input, and arrays by output; outputs that depend
          on rounding, such as the most likely label, are left out.
        """
