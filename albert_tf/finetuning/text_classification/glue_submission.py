"""Submission files for the GLUE benchmark."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from albert_tf.errors import InputError
from albert_tf.files import check_not_input, new_file
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
from albert_tf.finetuning.text_classification.examples import text_task_config
from albert_tf.finetuning.text_classification.glue import GLUE


def write_submissions(
    predictor: Predictor,
    task_config: TaskConfig,
    folder: str | os.PathLike[str],
    bad: BadExamples,
    *,
    source: str = FILES,
    data: str | os.PathLike[str] | None = None,
) -> Iterator[pathlib.Path]:
    """Predicts the test sets of a GLUE task and writes its submission files.

    A model of MNLI also predicts the diagnostic sentences, if they are found.
    The folder must exist. `source` and `data` are those of `find_split`.

    Yields:
      The path of each file after it has been written.

    Raises:
      InputError: if it is not a task of GLUE, or a test set does not exist.
    """
    task = GLUE.get(task_config.name)
    if task is None or not task.submissions:
        raise InputError(
            f"glue_submission: {task_config.name} is not a task of GLUE"
        )
    test_sets = [
        (name, _find_test_set(task.name, split, source, data))
        for split, name in task.submissions.items()
    ]
    if task.name == "mnli":
        diagnostic = GLUE["ax"]
        try:
            test_sets += [
                (name, _find_test_set(diagnostic.name, split, source, data))
                for split, name in diagnostic.submissions.items()
            ]
        except InputError:
            pass  # Not every download contains it.
    for name, _ in test_sets:
        for _, (_, test_set) in test_sets:
            check_not_input(
                pathlib.Path(folder) / name, files_below([test_set])
            )
    for name, (task_type, test_set) in test_sets:
        target = pathlib.Path(folder) / name
        examples = read_examples(task_type, [test_set], bad=bad, labelled=False)
        _write(predictor, task_type.task_config.labels, examples, target)
        yield target


def _find_test_set(
    task: str, split: str, source: str, data: str | os.PathLike[str] | None
) -> tuple[TaskType, Source]:
    """Returns the task type that reads a test set, and its file or split."""
    # Not the model's own task, which may have been trained on other columns.
    task_type = make_task_type(text_task_config(GLUE[task]))
    test_set = find_split(task_type, split, source=source, data=data)
    files_below([test_set])  # Raises an error if it does not exist.
    return task_type, test_set


def _write(
    predictor: Predictor,
    labels: Sequence[str] | None,
    examples: Iterator[Any],
    path: pathlib.Path,
) -> None:
    """Writes the predictions for a test set.

    Submissions are zip archives of one file per task (gluebenchmark.com, FAQ):
    a header `index<TAB>prediction`, then a line per example in the order of the
    test file.
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
                        f"{example.location}: id {example.id!r} is also used "
                        "by another example; remove one of them"
                    )
                seen.add(example.id)
                text = (
                    f"{prediction:.6f}"
                    if labels is None
                    else labels[int(np.argmax(prediction))]
                )
                file.write(f"{example.id}\t{text}\n")
