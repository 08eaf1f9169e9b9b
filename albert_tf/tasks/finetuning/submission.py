"""Predictions of GLUE's test files, as the benchmark's site takes them."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator

import numpy as np

from albert_tf.data.examples.bad_examples import BadExamples
from albert_tf.data.examples.glue import GLUE
from albert_tf.data.examples.text_task import (
    TextTask,
    read_texts,
    split_file,
)
from albert_tf.errors import InputError
from albert_tf.metrics.submission import write_submission
from albert_tf.tasks.finetuning.description import TaskDescription
from albert_tf.tasks.finetuning.prediction import Predictor


def write_submissions(
    predictor: Predictor,
    description: TaskDescription,
    data_dir: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    bad: BadExamples,
) -> Iterator[pathlib.Path]:
    """Writes the files that the site wants of a task.

    A model of MNLI also predicts the diagnostic sentences, where they are.

    Args:
      predictor: one model, or several.
      description: of its task.
      data_dir: folder of GLUE's files, as distributed.
      folder: where to write; it must exist.
      bad: is told of examples that cannot be read.

    Yields:
      The path of each file when it is written.

    Raises:
      InputError: the task is none of GLUE's, or a test file is not there.
    """
    task = GLUE.get(description.name)
    if task is None or not task.submissions:
        raise InputError(
            f"glue_submission: the task {description.name} is none of GLUE's"
        )
    found = [(task, split) for split in task.submissions]
    paths = [split_file(task, data_dir, split) for task, split in found]
    if task.name == "mnli":
        diagnostic = GLUE["ax"]
        try:
            paths.append(split_file(diagnostic, data_dir, "test"))
            found.append((diagnostic, "test"))
        except InputError:
            pass  # Not every download has it.
    for (task, split), path in zip(found, paths, strict=True):
        target = pathlib.Path(folder) / task.submissions[split]
        _write(predictor, task, path, target, bad)
        yield target


def _write(
    predictor: Predictor,
    task: TextTask,
    path: pathlib.Path,
    target: pathlib.Path,
    bad: BadExamples,
) -> None:
    ids, predictions = [], []
    examples = read_texts(task, path, bad=bad, labelled=False)
    for window in predictor.windows(examples):
        ids += [example.id for example in window.examples]
        predictions += [
            prediction if task.labels is None else int(np.argmax(prediction))
            for prediction in window.predictions
        ]
    write_submission(target, ids, predictions, task.labels)
