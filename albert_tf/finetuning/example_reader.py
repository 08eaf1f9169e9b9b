"""How a task's examples are read."""

from __future__ import annotations

import abc
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from albert_tf.errors import InputError
from albert_tf.finetuning.examples import BadExamples
from albert_tf.finetuning.library_datasets import DatasetRows
from albert_tf.finetuning.task_config import TaskConfig, split_path

if TYPE_CHECKING:
    import os


class ExampleReader(abc.ABC):
    """Reads the examples of a task; a base class of `TaskType`.

    Examples have the attributes `id` and `location` ("file:line").

    Attributes:
      reads_lines: whether each line of a text file is an example.
      task_config: the task.
    """

    reads_lines: ClassVar[bool] = False
    task_config: TaskConfig

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
        """Yields the examples in a file or folder.

        Args:
          path: the file or folder.
          bad: collects examples that cannot be used.
          labelled: whether to read labels.
          training: whether the examples are for training. If so, examples that
            can be scored but not trained on are bad, too.

        Raises:
          InputError: if the file cannot be read.
        """

    def read_dataset(
        self,
        datasets: Sequence[DatasetRows],
        *,
        bad: BadExamples,
        labelled: bool,
        training: bool = False,
    ) -> Iterator[Any]:
        """Yields the examples of a dataset from a library.

        Args:
          datasets: the datasets that make up the task, usually one.
          bad, labelled, training: see `read_examples`.

        Raises:
          InputError: if a field is missing, or `labelled` is set for a split
            whose labels are not published.
        """
        raise InputError(
            f"from: no library has the task {self.task_config.name}; give its "
            "files"
        )

    def example_from_line(self, line: str, id: str, location: str) -> Any:
        """Makes an unlabelled example from a line of standard input.

        Args:
          line: the line without its end; may be blank.
          id: ID of the example.
          location: location of the example.

        Raises:
          InputError: if it is not an example; callers add the location.
        """
        raise InputError(
            f"the task {self.task_config.name} does not read examples from "
            "lines; give a file in its format"
        )

    def example_from_fields(self, fields: Mapping[str, Any], id: str) -> Any:
        """Makes an unlabelled example from texts by name, see `Predictor`."""
        raise InputError(
            f"the task {self.task_config.name} does not take an example with "
            f"{' and '.join(fields)} alone; give a file in its format"
        )

    def has_label(self, example: Any) -> bool:
        """Returns whether an example has the label that scores need."""
        return example.label is not None
