"""Tasks of GLUE, read from its files or from data set libraries."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
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
    TextTask,
    text_examples,
)

_FILES = {"train": "train.tsv", "dev": "dev.tsv", "test": "test.tsv"}
_BINARY = ("0", "1")
# The order of the original, on which the outputs of its checkpoints depend.
_THREE_WAY = ("contradiction", "entailment", "neutral")
_TWO_WAY = ("entailment", "not_entailment")

_TASKS = (
    TextTask(
        name="cola",
        labels=_BINARY,
        metrics=("matthews",),
        text=3,
        label=1,
        header=False,
        unlabelled={"text": "sentence", "id": "index", "header": True},
        folder="CoLA",
        files=_FILES,
        submissions={"test": "CoLA.tsv"},
    ),
    TextTask(
        name="sst2",
        labels=_BINARY,
        metrics=("accuracy",),
        text="sentence",
        label="label",
        unlabelled={"id": "index"},
        folder="SST-2",
        files=_FILES,
        submissions={"test": "SST-2.tsv"},
    ),
    TextTask(
        name="mrpc",
        labels=_BINARY,
        metrics=("accuracy", "f1"),
        text="#1 String",
        pair="#2 String",
        label="Quality",
        folder="MRPC",
        files=_FILES,
        # Microsoft's own files; GLUE's dev is a part of their train.
        other_files={
            "train": "msr_paraphrase_train.txt",
            "test": "msr_paraphrase_test.txt",
        },
        submissions={"test": "MRPC.tsv"},
    ),
    TextTask(
        name="stsb",
        labels=None,
        metrics=("pearson", "spearman"),
        text="sentence1",
        pair="sentence2",
        label="score",
        id="index",
        folder="STS-B",
        files=_FILES,
        submissions={"test": "STS-B.tsv"},
    ),
    TextTask(
        name="qqp",
        labels=_BINARY,
        metrics=("accuracy", "f1"),
        text="question1",
        pair="question2",
        label="is_duplicate",
        id="id",
        folder="QQP",
        files=_FILES,
        submissions={"test": "QQP.tsv"},
    ),
    TextTask(
        name="mnli",
        labels=_THREE_WAY,
        metrics=("accuracy",),
        text="sentence1",
        pair="sentence2",
        label="gold_label",
        id="index",
        folder="MNLI",
        files={
            "train": "train.tsv",
            "dev": "dev_matched.tsv",
            "dev_mismatched": "dev_mismatched.tsv",
            "test": "test_matched.tsv",
            "test_mismatched": "test_mismatched.tsv",
        },
        submissions={"test": "MNLI-m.tsv", "test_mismatched": "MNLI-mm.tsv"},
    ),
    TextTask(
        name="qnli",
        labels=_TWO_WAY,
        metrics=("accuracy",),
        text="question",
        pair="sentence",
        label="label",
        id="index",
        folder="QNLI",
        files=_FILES,
        submissions={"test": "QNLI.tsv"},
    ),
    TextTask(
        name="rte",
        labels=_TWO_WAY,
        metrics=("accuracy",),
        text="sentence1",
        pair="sentence2",
        label="label",
        id="index",
        lost_header=("index", "sentence1", "sentence2", "label"),
        folder="RTE",
        files=_FILES,
        submissions={"test": "RTE.tsv"},
    ),
    TextTask(
        name="wnli",
        labels=_BINARY,
        metrics=("accuracy",),
        text="sentence1",
        pair="sentence2",
        label="label",
        id="index",
        folder="WNLI",
        files=_FILES,
        submissions={"test": "WNLI.tsv"},
    ),
    # Diagnostic sentences, for a model of MNLI; without labels.
    TextTask(
        name="ax",
        labels=_THREE_WAY,
        metrics=("accuracy",),
        text="sentence1",
        pair="sentence2",
        id="index",
        folder="diagnostic",
        files={"test": "diagnostic.tsv"},
        other_files={"test": "AX.tsv"},
        submissions={"test": "AX.tsv"},
    ),
)

GLUE: Mapping[str, TextTask] = types.MappingProxyType(
    {task.name: task for task in _TASKS}
)

# The fields of the texts of GLUE's tasks, alike in both libraries.
_DATASET_TEXTS = {
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
_DATASET_CLASSES = {
    "mnli": ("entailment", "neutral", "contradiction"),
    "qnli": ("entailment", "not_entailment"),
    "rte": ("entailment", "not_entailment"),
}
# The label of all rows of a split whose labels are not published.
_HIDDEN_LABEL = -1


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
        (location, _dataset_cells(task, part, row, labelled))
        for location, row in numbered_rows(part)
    )
    yield from text_examples(
        GLUE[task], cells, bad=bad, labelled=labelled, unique=labelled
    )


def _dataset_cells(
    task: str, part: DatasetRows, row: dict[str, Any], labelled: bool
) -> dict[str, str]:
    """Returns the cells of a row of GLUE, as its files have them."""
    texts = [field(part, row, name) or "" for name in _DATASET_TEXTS[task]]
    cells = dict(zip(("text", "pair"), texts, strict=False))
    cells["id"] = str(field(part, row, "idx"))
    if labelled:
        cells["label"] = _dataset_label(task, part, field(part, row, "label"))
    return cells


def _dataset_label(task: str, part: DatasetRows, label: Any) -> str:
    """Returns a label of GLUE as the task's files have it."""
    if label == _HIDDEN_LABEL:
        raise InputError(
            f"{part.name}: its labels are hidden; take another split"
        )
    # A class of the data set is ours by its name, or else by its number.
    for classes in (part.classes, _DATASET_CLASSES.get(task)):
        if classes and label in range(len(classes)):
            if classes[label] in (GLUE[task].labels or ()):
                return classes[label]
    return str(label)
