"""GLUE's examples as libraries of data sets have them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from albert_tf.errors import InputError
from albert_tf.finetuning.examples import BadExamples
from albert_tf.finetuning.library_datasets import (
    DatasetRows,
    field,
    numbered_rows,
)
from albert_tf.finetuning.text_classification.examples import (
    TextExample,
    text_examples,
)
from albert_tf.finetuning.text_classification.glue import GLUE

# The fields of the texts of GLUE's tasks, alike in both libraries.
_TEXTS = {
    "cola": ("sentence",),
    "sst2": ("sentence",),
    "mrpc": ("sentence1", "sentence2"),
    "stsb": ("sentence1", "sentence2"),
    "qqp": ("question1", "question2"),
    "mnli": ("premise", "hypothesis"),
    "qnli": ("question", "sentence"),
    "rte": ("sentence1", "sentence2"),
    "wnli": ("sentence1", "sentence2"),
    "ax": ("premise", "hypothesis"),
}
# What their class numbers mean, where that is not our label itself, and the
# data set does not say it.
_CLASSES = {
    "mnli": ("entailment", "neutral", "contradiction"),
    "qnli": ("entailment", "not_entailment"),
    "rte": ("entailment", "not_entailment"),
}
# The label of all rows of a split whose labels are not published.
_HIDDEN = -1


def glue_examples(
    task: str, part: DatasetRows, *, bad: BadExamples, labelled: bool
) -> Iterator[TextExample]:
    """Makes examples of the rows of a data set.

    Args:
      task: of GLUE.
      part: the rows.
      bad: collects examples that cannot be used.
      labelled: whether labels are read.

    Raises:
      InputError: a field is missing, or labels are wanted and hidden.
    """
    cells = (
        (location, _cells(task, part, row, labelled))
        for location, row in numbered_rows(part)
    )
    yield from text_examples(
        GLUE[task], cells, bad=bad, labelled=labelled, unique=labelled
    )


def _cells(
    task: str, part: DatasetRows, row: dict[str, Any], labelled: bool
) -> dict[str, str]:
    """Returns the cells of a row of GLUE, as its files have them."""
    texts = [field(part, row, name) or "" for name in _TEXTS[task]]
    cells = dict(zip(("text", "pair"), texts, strict=False))
    cells["id"] = str(field(part, row, "idx"))
    if labelled:
        cells["label"] = _label(task, part, field(part, row, "label"))
    return cells


def _label(task: str, part: DatasetRows, label: Any) -> str:
    """Returns a label of GLUE as the task's files have it."""
    if label == _HIDDEN:
        raise InputError(
            f"{part.name}: its labels are hidden; take another split"
        )
    # A class of the data set is ours by its name, or else by its number.
    for classes in (part.classes, _CLASSES.get(task)):
        if classes and label in range(len(classes)):
            if classes[label] in (GLUE[task].labels or ()):
                return classes[label]
    return str(label)
