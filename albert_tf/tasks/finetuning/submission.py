"""Predictions of GLUE's test sets, as the benchmark's site takes them."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from albert_tf.data.examples.bad_examples import BadExamples
from albert_tf.data.examples.glue import GLUE
from albert_tf.errors import InputError
from albert_tf.metrics.submission import write_submission
from albert_tf.tasks.finetuning.description import TaskDescription
from albert_tf.tasks.finetuning.known_tasks import KNOWN_TASKS
from albert_tf.tasks.finetuning.prediction import Predictor
from albert_tf.tasks.finetuning.task_files import (
    FILES,
    Source,
    files_below,
    find_split,
    read_examples,
)


def write_submissions(
    predictor: Predictor,
    description: TaskDescription,
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
      description: of its task.
      folder: where to write; it must exist.
      bad: is told of examples that cannot be read.
      source, data: where the test sets are, see `find_split`.

    Yields:
      The path of each file when it is written.

    Raises:
      InputError: the task is none of GLUE's, or a test set is not there.
    """
    task = GLUE.get(description.name)
    if task is None or not task.submissions:
        raise InputError(
            f"glue_submission: the task {description.name} is none of GLUE's"
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
    for name, (description, test_set) in found:
        target = pathlib.Path(folder) / name
        examples = read_examples(description, test_set, bad=bad, labelled=False)
        _write(predictor, description, examples, target)
        yield target


def _test_set(
    task: str,
    split: str,
    source: str,
    data: str | os.PathLike[str] | None,
) -> tuple[TaskDescription, Source]:
    """Returns how a test set is read, and what from.

    Raises:
      InputError: it is not there.
    """
    # That of a model may name the columns of other tables.
    description = KNOWN_TASKS[task]
    found = find_split(description, split, source=source, data=data)
    files_below([found])  # Says so where it is not there.
    return description, found


def _write(
    predictor: Predictor,
    description: TaskDescription,
    examples: Iterator[Any],
    target: pathlib.Path,
) -> None:
    ids, predictions = [], []
    for window in predictor.windows(examples):
        ids += [example.id for example in window.examples]
        predictions += [
            prediction
            if description.labels is None
            else int(np.argmax(prediction))
            for prediction in window.predictions
        ]
    write_submission(target, ids, predictions, description.labels)
