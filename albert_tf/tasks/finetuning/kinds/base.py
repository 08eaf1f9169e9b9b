"""What every kind of task says of itself."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from albert_tf.data.features.rows import Rows
from albert_tf.models.base import AlbertModel
from albert_tf.tasks.finetuning.description import TaskDescription
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.training.task import Task

Outputs = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prepared:
    """Examples as rows to be predicted.

    Attributes:
      examples: as they were read.
      rows: what the model gets.
      parts: what the kind needs to make predictions of outputs, for each
        example; None if that is nothing.
    """

    examples: Sequence[Any]
    rows: Rows
    parts: Sequence[Any] | None = None


class TaskKind(abc.ABC):
    """How examples become rows, and outputs of a model predictions.

    What a prediction is depends on the kind; each says so.

    Attributes:
      model_class: of its models.
      token_outputs: names of the outputs that are `[batch, seq, ...]`.

    Args:
      description: of the task, which is of this kind.
      tokenizer: of the model.
    """

    model_class: ClassVar[type[AlbertModel]]
    token_outputs: ClassVar[tuple[str, ...]] = ()

    def __init__(self, description: TaskDescription, tokenizer: Tokenizer):
        self.description = description
        self.tokenizer = tokenizer

    @property
    def max_seq_length(self) -> int:
        """Most tokens of a row."""
        return self.description.settings["max_seq_length"]

    @abc.abstractmethod
    def model_arguments(self) -> dict[str, Any]:
        """Returns what the model is made with, but for what all models take."""

    @abc.abstractmethod
    def training_task(self) -> Task:
        """Returns the loss."""

    @abc.abstractmethod
    def training_rows(self, examples: Iterable[Any]) -> Rows:
        """Returns rows with labels.

        Args:
          examples: with labels; read once.

        Raises:
          InputError: an example has none, or one that the task does not have.
        """

    @abc.abstractmethod
    def prepare(self, examples: Sequence[Any]) -> Prepared:
        """Returns rows without labels; the examples need none."""

    @abc.abstractmethod
    def forward(
        self, model: AlbertModel, batch: Mapping[str, tf.Tensor]
    ) -> Mapping[str, tf.Tensor]:
        """Returns the outputs that predictions are made of; in a graph."""

    @abc.abstractmethod
    def predictions(
        self, prepared: Prepared, outputs: Sequence[Outputs]
    ) -> list[Any]:
        """Returns a prediction for each example.

        Args:
          prepared: what `prepare` returned.
          outputs: of `forward`, for each example of its rows.
        """

    @abc.abstractmethod
    def average(self, members: Mapping[str, Sequence[Any]]) -> list[Any]:
        """Returns the predictions of an ensemble.

        Args:
          members: model -> its predictions, of the same examples.
        """

    @abc.abstractmethod
    def scores(
        self, examples: Sequence[Any], predictions: Sequence[Any]
    ) -> dict[str, float]:
        """Returns the metrics of the task by name, the key metric first.

        Args:
          examples: with labels.
          predictions: one for each.
        """

    @abc.abstractmethod
    def check_scores(self, examples: Sequence[Any]) -> None:
        """Checks that predictions of examples can be scored, before there are.

        Args:
          examples: with labels.

        Raises:
          InputError: a metric is not for such labels, or a package lacks.
        """

    @abc.abstractmethod
    def record(self, example: Any, prediction: Any) -> dict[str, Any]:
        """Returns a prediction as JSON values, `id` first."""

    def fitted(self, scores: Mapping[str, float]) -> TaskDescription:
        """Returns the description, with what the development set decides.

        Args:
          scores: of the development set.
        """
        return self.description

    def ensemble(self, members: Sequence[TaskDescription]) -> TaskDescription:
        """Returns the description by which averaged predictions are decoded.

        Args:
          members: the descriptions of the models, ours first.
        """
        return self.description

    def has_labels(self, examples: Sequence[Any]) -> bool:
        """Whether examples can be scored."""
        return all(example.label is not None for example in examples)
