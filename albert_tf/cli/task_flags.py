"""Flags for the source of a task's examples."""

from __future__ import annotations

import dataclasses
from typing import Literal

from albert_tf.finetuning.data import FILES
from albert_tf.finetuning.library_datasets import SOURCES
from albert_tf.settings import EXAMPLES, MODEL, setting


def column(name: str) -> str | int:
    """Parses a column: its name, or its number in a table without a header."""
    return int(name) if name.isdecimal() else name


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskModuleFlags:
    """The flag for task types of the user."""

    task_module: str | None = setting(
        None,
        "Python file that registers custom task types. It is executed.",
        group=MODEL,
    )

    def load_task_module(self) -> None:
        """Imports the file, if one is given.

        Raises:
          InputError: if it cannot be imported.
        """
        if self.task_module is not None:
            # Imported here, so that flag errors do not wait for TensorFlow.
            from albert_tf.finetuning.registry import load_task_module

            load_task_module(self.task_module)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SourceFlags(TaskModuleFlags):
    """Flags for the source of examples, and for invalid ones."""

    source: str = setting(
        FILES,
        "Source of the task's data: files as distributed, TensorFlow Datasets "
        "or Hugging Face datasets. With the latter two, --data is optional: a "
        "folder that contains the data sets.",
        flag="from",
        choices=(FILES, *SOURCES),
        group=EXAMPLES,
    )
    data: str | None = setting(
        None,
        "Folder of the task's files as distributed, or its parent folder; see "
        "also --from.",
        group=EXAMPLES,
    )
    on_bad_example: Literal["stop", "skip"] = setting(
        "stop",
        "What to do with invalid examples: stop, or skip, count and list them.",
        group=EXAMPLES,
    )

    @property
    def from_library(self) -> bool:
        """Whether the examples come from TFDS or Hugging Face datasets."""
        return self.source != FILES
