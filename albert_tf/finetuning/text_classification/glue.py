"""Tasks of GLUE, read from its files or from dataset libraries."""

from __future__ import annotations

import functools
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
    parse_label,
    text_examples,
)

# In the original's order, on which the outputs of its checkpoints depend.
_THREE_WAY = ("contradiction", "entailment", "neutral")
_TWO_WAY = ("entailment", "not_entailment")


def _task(name: str, folder: str, **fields: Any) -> TextTask:
    """Returns a task; `fields` override the usual values."""
    usual: dict[str, Any] = {
        "labels": ("0", "1"),
        "metrics": ("accuracy",),
        "text": "sentence1",
        "pair": "sentence2",
        "label": "label",
        "id": "index",
        "files": {x: f"{x}.tsv" for x in ("train", "dev", "test")},
        "submissions": {"test": f"{folder}.tsv"},
    }
    return TextTask(name=name, folder=folder, **{**usual, **fields})


_TASKS = (
    _task(
        "cola",
        "CoLA",
        metrics=("matthews",),
        text=3,
        pair=None,
        label=1,
        id=None,
        header=False,
        unlabelled={"text": "sentence", "id": "index", "header": True},
    ),
    _task(
        "sst2",
        "SST-2",
        text="sentence",
        pair=None,
        id=None,
        unlabelled={"id": "index"},
    ),
    _task(
        "mrpc",
        "MRPC",
        metrics=("accuracy", "f1"),
        text="#1 String",
        pair="#2 String",
        label="Quality",
        id=None,
        # As distributed by Microsoft; GLUE's dev is a part of its train.
        other_files={
            "train": "msr_paraphrase_train.txt",
            "test": "msr_paraphrase_test.txt",
        },
    ),
    _task(
        "stsb",
        "STS-B",
        labels=None,
        metrics=("pearson", "spearman"),
        label="score",
    ),
    _task(
        "qqp",
        "QQP",
        metrics=("accuracy", "f1"),
        text="question1",
        pair="question2",
        label="is_duplicate",
        id="id",
    ),
    _task(
        "mnli",
        "MNLI",
        labels=_THREE_WAY,
        label="gold_label",
        files={
            "train": "train.tsv",
            "dev": "dev_matched.tsv",
            "dev_mismatched": "dev_mismatched.tsv",
            "test": "test_matched.tsv",
            "test_mismatched": "test_mismatched.tsv",
        },
        submissions={"test": "MNLI-m.tsv", "test_mismatched": "MNLI-mm.tsv"},
    ),
    _task("qnli", "QNLI", labels=_TWO_WAY, text="question", pair="sentence"),
    _task(
        "rte",
        "RTE",
        labels=_TWO_WAY,
        lost_header=("index", "sentence1", "sentence2", "label"),
    ),
    _task("wnli", "WNLI"),
    # Diagnostic sentences without labels, to predict with a model of MNLI.
    _task(
        "ax",
        "diagnostic",
        labels=_THREE_WAY,
        label=None,
        files={"test": "diagnostic.tsv"},
        other_files={"test": "AX.tsv"},
        submissions={"test": "AX.tsv"},
    ),
)

GLUE: Mapping[str, TextTask] = types.MappingProxyType(
    {task.name: task for task in _TASKS}
)

# Text fields of the datasets in both libraries, if they are not sentence1 and
# sentence2.
_DATASET_TEXTS = {
    "cola": ("sentence",),
    "sst2": ("sentence",),
    "qqp": ("question1", "question2"),
    "mnli": ("premise", "hypothesis"),
    "qnli": ("question", "sentence"),
    "ax": ("premise", "hypothesis"),
}
# Names of the classes, for datasets that do not provide our labels.
_DATASET_CLASSES = {
    "mnli": ("entailment", "neutral", "contradiction"),
    "qnli": _TWO_WAY,
    "rte": _TWO_WAY,
}
# The label of rows whose labels are not published.
_HIDDEN_LABEL = -1


def glue_examples(
    task: str, dataset: DatasetRows, *, bad: BadExamples, labelled: bool
) -> Iterator[TextExample]:
    """Converts the rows of a dataset to examples.

    Raises:
      InputError: if a field is missing, or `labelled` is set for a split whose
        labels are not published.
    """
    cells = (
        (location, _dataset_cells(task, dataset, row, labelled))
        for location, row in numbered_rows(dataset)
    )
    parse = functools.partial(parse_label, GLUE[task]) if labelled else None
    yield from text_examples(cells, parse, bad=bad, unique=labelled)


def _dataset_cells(
    task: str, dataset: DatasetRows, row: dict[str, Any], labelled: bool
) -> dict[str, str]:
    names = _DATASET_TEXTS.get(task, ("sentence1", "sentence2"))
    texts = [field(dataset, row, name) or "" for name in names]
    cells = dict(zip(("text", "pair"), texts, strict=False))
    cells["id"] = str(field(dataset, row, "idx"))
    if labelled:
        label = field(dataset, row, "label")
        cells["label"] = _dataset_label(task, dataset, label)
    return cells


def _dataset_label(task: str, dataset: DatasetRows, label: Any) -> str:
    if label == _HIDDEN_LABEL:
        raise InputError(
            f"{dataset.name}: its labels are not published; use another split"
        )
    # Classes are mapped to our labels by name, or else by number.
    for classes in (dataset.classes, _DATASET_CLASSES.get(task)):
        if classes and label in range(len(classes)):
            if classes[label] in (GLUE[task].labels or ()):
                return classes[label]
    return str(label)
