"""The tasks of GLUE, in the layout of its files as distributed."""

from __future__ import annotations

import types
from collections.abc import Mapping

from albert_tf.finetuning.text_classification.examples import TextTask

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
