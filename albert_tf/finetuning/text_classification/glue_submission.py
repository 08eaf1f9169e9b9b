"""Predictions of GLUE's test sets, as the benchmark's site takes them."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from albert_tf.errors import InputError
from albert_tf.files import new_file
from albert_tf.finetuning.data import (
    FILES,
    Source,
    files_below,
    find_split,
    read_examples,
)
from albert_tf.finetuning.examples import BadExamples
from albert_tf.finetuning.predictor import Predictor
from albert_tf.finetuning.registry import make_task_type
from albert_tf.finetuning.task_config import TaskConfig
from albert_tf.finetuning.task_type import TaskType
from albert_tf.finetuning.text_classification.glue import GLUE
from albert_tf.finetuning.text_classification.task import text_task_config


def write_submissions(
    predictor: Predictor,
    task_config: TaskConfig,
    folder: str | os.PathLike[str],
    bad: BadExamples,
    *,
    source: str = FILES,
    data: str | os.PathLike[str] | None = None,
) -> Iterator[pathlib.Path]:
    """Writes the files that the site wants of a task.

    A model of MNLI also predicts the diagnostic sentences, where they are.

    Args:
      predictor: one model, or several.
      task_config: its task.
      folder: where to write; it must exist.
      bad: collects examples that cannot be read.
      source, data: where the test sets are, see `find_split`.

    Yields:
      The path of each file when it is written.

    Raises:
      InputError: the task is none of GLUE's, or a test set is not there.
    """
    task = GLUE.get(task_config.name)
    if task is None or not task.submissions:
        raise InputError(
            f"glue_submission: the task {task_config.name} is none of GLUE's"
        )
    found = [
        (name, _test_set(task.name, split, source, data))
        for split, name in task.submissions.items()
    ]
    if task.name == "mnli":
        diagnostic = GLUE["ax"]
        try:
            found += [
                (name, _test_set(diagnostic.name, split, source, data))
                for split, name in diagnostic.submissions.items()
            ]
        except InputError:
            pass  # Not every download has it.
    for name, (task_type, test_set) in found:
        target = pathlib.Path(folder) / name
        examples = read_examples(task_type, test_set, bad=bad, labelled=False)
        _write(predictor, task_type.task_config.labels, examples, target)
        yield target


def _test_set(
    task: str,
    split: str,
    source: str,
    data: str | os.PathLike[str] | None,
) -> tuple[TaskType, Source]:
    """Returns how a test set is read, and what from."""
    # That of a model may name the columns of other tables.
    task_type = make_task_type(text_task_config(GLUE[task]))
    found = find_split(task_type, split, source=source, data=data)
    files_below([found])  # Says so where it is not there.
    return task_type, found


def _write(
    predictor: Predictor,
    labels: Sequence[str] | None,
    examples: Iterator[Any],
    path: pathlib.Path,
) -> None:
    """Writes the predictions for one test file.

    The site wants a zip file of all tasks' files, each with its name
    (gluebenchmark.com, FAQ): a header `index<TAB>prediction`, then a line for
    each example in the order of the test file.

    Raises:
      InputError: an id is there twice, or the file cannot be written.
    """
    seen: set[str] = set()
    with new_file(path) as file:
        file.write("index\tprediction\n")
        for chunk in predictor.chunks(examples):
            for example, prediction in zip(
                chunk.examples, chunk.predictions, strict=True
            ):
                if example.id in seen:
                    raise InputError(
                        f"{example.location}: id {example.id!r} is that of "
                        "another example of the test file; remove one of them"
                    )
                seen.add(example.id)
                text = (
                    f"{prediction:.6f}"
                    if labels is None
                    else labels[int(np.argmax(prediction))]
                )
                file.write(f"{example.id}\t{text}\n")
