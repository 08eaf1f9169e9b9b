"""Settings of question answering, and of its known tasks."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from albert_tf.errors import InputError
from albert_tf.finetuning.task_config import TaskConfig


@dataclasses.dataclass(frozen=True, kw_only=True)
class WindowSettings:
    """Lengths in pieces; the defaults are the original's for SQuAD.

    Attributes:
      max_seq_length: Maximum length of a sequence, including question, context,
        `[CLS]` and two `[SEP]`.
      doc_stride: Distance between the starts of consecutive windows.
      max_query_length: Maximum length of a question; longer ones are truncated.

    Raises:
      InputError: if a length is below 1 or leaves no room for the context.
    """

    max_seq_length: int = 384
    doc_stride: int = 128
    max_query_length: int = 64

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value < 1:
                raise InputError(f"{field.name}={value} must be at least 1")
        if self.max_seq_length < self.max_query_length + 4:
            raise InputError(
                f"max_seq_length={self.max_seq_length} leaves no room for the "
                f"context beside max_query_length={self.max_query_length} and "
                "three special tokens; make it at least "
                f"{self.max_query_length + 4}"
            )

    @classmethod
    def of_task(cls, settings: Mapping[str, Any]) -> WindowSettings:
        """Returns those among the settings of a task."""
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(**{name: settings[name] for name in names})


def least_length(settings: Mapping[str, Any]) -> int:
    """Returns the least length of a sequence for the settings of a task.

    The joint head has a position for each of its candidates.
    """
    if settings["head"] != "joint":
        return 0
    return max(settings["start_n_top"], settings["end_n_top"])


DEFAULT_SETTINGS = {
    **dataclasses.asdict(WindowSettings()),
    "head": "v1",
    "start_n_top": 5,
    "end_n_top": 5,
    "n_best": 20,
    "max_answer_length": 30,
    "rules": "squad1.1",
    "null_threshold": None,
}

_SQUAD = {"train": "train-v{}.json", "dev": "dev-v{}.json"}
_CMRC = {x: f"cmrc2018_{x}.json" for x in ("train", "dev")}
_CMRC["test"] = "cmrc2018_trial.json"
_JOINT = {"head": "joint", "rules": "squad2.0"}
_LONG = {"max_seq_length": 512, "rules": "cmrc"}
SQUAD_1, SQUAD_2, CMRC = (
    TaskConfig(
        name=name,
        task_type="question_answering",
        metrics=("f1", metric),
        settings={**DEFAULT_SETTINGS, **settings},
        source={
            "reader": reader,
            "folder": folder,
            "files": {
                split: file.format(name.removeprefix("squad"))
                for split, file in files.items()
            },
        },
    )
    for name, reader, folder, metric, files, settings in (
        ("squad1.1", "squad", "squad", "exact_match", _SQUAD, {}),
        ("squad2.0", "squad", "squad", "exact", _SQUAD, _JOINT),
        ("cmrc2018", "cmrc", "cmrc2018", "exact_match", _CMRC, _LONG),
    )
)
