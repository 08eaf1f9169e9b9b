"""The tasks that can be fine-tuned by name, each a small piece of data."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.data.examples.glue import GLUE
from albert_tf.data.examples.text_task import TextTask
from albert_tf.errors import InputError
from albert_tf.tasks.finetuning.description import TaskDescription

_TEXT = {"max_seq_length": 512}
_CHOICE = {"max_seq_length": 512, "max_qa_length": 128}
_SPAN = {
    "max_seq_length": 384,
    "doc_stride": 128,
    "max_query_length": 64,
    "head": "v1",
    "start_n_top": 5,
    "end_n_top": 5,
    "n_best": 20,
    "max_answer_length": 30,
    "rules": "squad1.1",
    "null_threshold": None,
}


def _others() -> tuple[TaskDescription, ...]:
    def files(reader: str, folder: str, **names: str) -> dict[str, Any]:
        return {"reader": reader, "folder": folder, "files": names}

    splits = {"train": "train", "dev": "dev", "test": "test"}
    json_files = {name: f"{name}.json" for name in splits}
    accuracy = ("accuracy",)
    f1 = ("f1", "exact_match")
    return (
        TaskDescription(
            name="race",
            kind="choices",
            metrics=accuracy,
            settings=_CHOICE,
            source=files("race", "RACE", **splits),
        ),
        TaskDescription(
            name="dream",
            kind="choices",
            metrics=accuracy,
            settings=_CHOICE,
            source=files("dream", "dream", **json_files),
        ),
        TaskDescription(
            name="squad1.1",
            kind="spans",
            metrics=f1,
            settings=_SPAN,
            source=files(
                "squad", "squad", train="train-v1.1.json", dev="dev-v1.1.json"
            ),
        ),
        TaskDescription(
            name="squad2.0",
            kind="spans",
            metrics=("f1", "exact"),
            settings={**_SPAN, "head": "joint", "rules": "squad2.0"},
            source=files(
                "squad", "squad", train="train-v2.0.json", dev="dev-v2.0.json"
            ),
        ),
        TaskDescription(
            name="cmrc2018",
            kind="spans",
            metrics=f1,
            settings={**_SPAN, "max_seq_length": 512, "rules": "cmrc"},
            source=files(
                "cmrc",
                "cmrc2018",
                train="cmrc2018_train.json",
                dev="cmrc2018_dev.json",
                test="cmrc2018_trial.json",
            ),
        ),
        TaskDescription(
            name="ner",
            kind="words",
            metrics=("f1", "precision", "recall", "accuracy"),
            settings=_TEXT,
            source=files("conll", "ner", **{n: f"{n}.txt" for n in splits}),
        ),
    )


def describe_texts(task: TextTask) -> TaskDescription:
    """Returns the description of a task of texts: of GLUE or of one's own."""
    return TaskDescription(
        name=task.name,
        kind="number" if task.labels is None else "classes",
        labels=task.labels,
        metrics=task.metrics,
        settings=_TEXT,
        source={"reader": "texts", **dataclasses.asdict(task)},
    )


# Own tables are a task named "text", which only the tables describe.
KNOWN_TASKS: Mapping[str, TaskDescription] = types.MappingProxyType(
    {name: describe_texts(task) for name, task in GLUE.items()}
    | {description.name: description for description in _others()}
)


def with_metrics(
    description: TaskDescription, metrics: Sequence[str]
) -> TaskDescription:
    """Returns a description with other metrics, of which the first decides.

    Raises:
      InputError: the scores of the task's kind are fixed.
    """
    if description.kind in ("choices", "spans"):
        raise InputError(
            f"metrics={','.join(metrics)}: those of the task "
            f"{description.name} are {', '.join(description.metrics)}"
        )
    return dataclasses.replace(description, metrics=tuple(metrics))


def with_settings(
    description: TaskDescription, changes: Mapping[str, Any]
) -> TaskDescription:
    """Returns a description with other settings.

    Args:
      description: of the task.
      changes: name -> value; None: as it is.

    Raises:
      InputError: tasks of this kind have no such setting, or its value cannot
        be.
    """
    changes = {name: x for name, x in changes.items() if x is not None}
    for name, value in changes.items():
        if name not in description.settings:
            raise InputError(
                f"{name}={value}: the task {description.name} has no such "
                f"setting, but {', '.join(description.settings)}"
            )
    settings = {**description.settings, **changes}
    if settings.get("rules") == "squad2.0" and settings["head"] != "joint":
        raise InputError(
            f"head={settings['head']} cannot say that there is no answer; the "
            f"task {description.name} needs head=joint"
        )
    return dataclasses.replace(description, settings=settings)
