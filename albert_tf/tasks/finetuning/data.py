"""What a run trains on and is scored on: examples read and made to rows."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

from albert_tf.data.examples.bad_examples import BadExamples
from albert_tf.data.features.cache import cache_key, cached
from albert_tf.data.features.rows import Rows
from albert_tf.errors import InputError
from albert_tf.tasks.finetuning.description import TaskDescription
from albert_tf.tasks.finetuning.kinds.base import Prepared, TaskKind
from albert_tf.tasks.finetuning.task_files import files_below, read_examples


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskFiles:
    """The files of a run.

    Attributes:
      train: files, or folders where the task has such, to train on.
      dev: those that decide which checkpoint is the best; none: the last one
        is taken.
      on_bad_example: see `BadExamples`.
    """

    train: Sequence[str | os.PathLike[str]]
    dev: Sequence[str | os.PathLike[str]] = ()
    on_bad_example: str = "stop"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskData:
    """The data of a run.

    Attributes:
      rows: to train on, with labels.
      dev: to be scored on; None: there is none.
      identity: what a resume must agree on, as JSON values.
    """

    rows: Rows
    dev: Prepared | None
    identity: dict[str, Any]


def load_data(
    kind: TaskKind,
    files: TaskFiles,
    cache_dir: str | os.PathLike[str] | None = None,
) -> TaskData:
    """Reads the examples, and makes rows of them.

    Examples that are left out are counted and listed on stderr.

    Args:
      kind: of the task.
      files: what to read.
      cache_dir: where the rows of training are kept; None: nowhere.

    Raises:
      InputError: a file cannot be read, an example cannot be used, or there is
        none left.
    """
    description = kind.description
    key = cache_key(
        task=description.name,
        tokenizer=kind.tokenizer,
        settings={
            "kind": description.kind,
            "labels": description.labels,
            "source": description.source,
            "on_bad_example": files.on_bad_example,
            **description.settings,
        },
        files=files_below(files.train),
    )

    def make() -> Rows:
        bad = BadExamples(files.on_bad_example)
        rows = kind.training_rows(
            example
            for path in files.train
            for example in read_examples(
                description, path, bad=bad, labelled=True, training=True
            )
        )
        _tell(bad, files.train)
        return rows

    rows = cached(cache_dir, key, make)
    if not rows.num_examples:
        raise InputError(
            f"{', '.join(map(str, files.train))}: no example to train on"
        )
    dev = None
    if files.dev:
        examples = labelled_examples(
            description, files.dev, files.on_bad_example
        )
        kind.check_scores(examples)
        dev = kind.prepare(examples)
    return TaskData(rows=rows, dev=dev, identity=key)


def labelled_examples(
    description: TaskDescription,
    paths: Sequence[str | os.PathLike[str]],
    on_bad_example: str = "stop",
) -> list[Any]:
    """Returns the examples of some files, with labels, to be scored on.

    Examples that are left out are counted and listed on stderr.

    Args:
      description: of the task.
      paths: what to read.
      on_bad_example: see `BadExamples`.

    Raises:
      InputError: a file cannot be read, an example cannot be used, or there is
        none left.
    """
    bad = BadExamples(on_bad_example)
    files_below(paths)  # Says so where one is not there.
    examples = [
        example
        for path in paths
        for example in read_examples(
            description, pathlib.Path(path), bad=bad, labelled=True
        )
    ]
    _tell(bad, paths)
    if not examples:
        raise InputError(
            f"{', '.join(map(str, paths))}: no example to score is left"
        )
    return examples


def _tell(bad: BadExamples, paths: Sequence[Any]) -> None:
    if bad.counted:
        names = ", ".join(map(str, paths))
        print(f"{names}: {bad.summary()}", file=sys.stderr, flush=True)
