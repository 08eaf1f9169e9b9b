"""Flags that say where the examples of a task come from."""

from __future__ import annotations

import dataclasses
from typing import Literal

from albert_tf.finetuning.data import FILES
from albert_tf.finetuning.library_datasets import SOURCES
from albert_tf.settings import EXAMPLES, setting


def column(name: str) -> str | int:
    """Returns a column: its name, or its number in a table without header."""
    return int(name) if name.isdecimal() else name


@dataclasses.dataclass(frozen=True, kw_only=True)
class SourceFlags:
    """Where examples come from, and what is done with bad ones."""

    source: str = setting(
        FILES,
        "Where the task's data come from: files as they are distributed; or "
        "TensorFlow Datasets, or Hugging Face's datasets, by the task's name: "
        "--data is then optional, a folder that has them.",
        flag="from",
        choices=(FILES, *SOURCES),
        group=EXAMPLES,
    )
    data: str | None = setting(
        None,
        "Folder with the task's files as they are distributed, or its parent "
        "folder; see also --from.",
        group=EXAMPLES,
    )
    on_bad_example: Literal["stop", "skip"] = setting(
        "stop",
        "Examples that cannot be used: stop, or skip, count and list them.",
        group=EXAMPLES,
    )

    @property
    def from_library(self) -> bool:
        """Whether a library of data sets provides the examples."""
        return self.source != FILES
