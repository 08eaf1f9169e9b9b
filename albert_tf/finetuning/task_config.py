"""Task configuration, saved as `task.json` beside the weights."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from albert_tf.errors import InputError

# Names of task types in files written before version 0.2: "kind" -> task type.
_OLD_NAMES = {
    "classes": "text_classification",
    "number": "regression",
    "choices": "multiple_choice",
    "spans": "question_answering",
    "words": "token_classification",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskConfig:
    """A task: its type, labels, metrics and settings.

    Attributes:
      name: such as "sst2".
      task_type: name of a registered `TaskType`, such as "text_classification".
      labels: names of the classes, or of the labels of words, in the order of
        the model's outputs; None if the task type has no labels.
      metrics: names of the metrics; the first is the key metric.
      settings: settings of the features and predictions as JSON values, such
        as `max_seq_length`; see the task type.
      source: how the task's files are read, as JSON values; see the task type.
      scores: scores on the development set by metric; empty without one.
      task_module: absolute path of the Python file that defines the task type;
        None for built-in task types.
    """

    name: str
    task_type: str
    labels: tuple[str, ...] | None = None
    metrics: tuple[str, ...]
    settings: Mapping[str, Any]
    source: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    scores: Mapping[str, float] = dataclasses.field(default_factory=dict)
    task_module: str | None = None

    @property
    def key_metric(self) -> str:
        """The metric that decides which checkpoint is the best."""
        return self.metrics[0]

    def to_dict(self) -> dict[str, Any]:
        """Returns the configuration as JSON values."""
        return json.loads(json.dumps(dataclasses.asdict(self)))

    def to_json(self) -> str:
        """Returns the text of `task.json`."""
        return json.dumps(self.to_dict(), indent=2) + "\n"

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TaskConfig:
        """Makes a configuration from `to_dict()`, also of older versions.

        Raises:
          TypeError, KeyError: a field is missing or unknown.
        """
        values = dict(values)
        if "kind" in values:
            values["task_type"] = _OLD_NAMES[values.pop("kind")]
        for name in ("labels", "metrics"):
            values[name] = values[name] and tuple(values[name])
        return cls(**values)

    @classmethod
    def from_json(cls, text: str, path: str) -> TaskConfig:
        """Parses the text of `task.json`.

        Args:
          text: the content.
          path: the file's path, for errors.

        Raises:
          InputError: the text is not a task configuration.
        """
        try:
            return cls.from_dict(json.loads(text))
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{path} does not describe a task ({error!r}); use the file "
                "that `albert finetune` has written"
            ) from None

    def identity(self) -> dict[str, Any]:
        """Returns what the features depend on, as JSON values.

        A run records it and must find it unchanged when it is resumed. Names
        are those of older versions, so that their runs can be resumed too.
        """
        old_names = {new: old for old, new in _OLD_NAMES.items()}
        return {
            "kind": old_names.get(self.task_type, self.task_type),
            "labels": self.labels,
            "source": self.source,
            **self.settings,
        }


def split_path(
    task_config: TaskConfig, data_dir: str | os.PathLike[str], split: str
) -> pathlib.Path:
    """Returns the file or folder of a split; see `TaskType.find_split`."""
    source, task = task_config.source, task_config.name
    files = source.get("files", {})
    if split not in files:
        raise InputError(
            f"split={split!r} of {task} must be one of "
            f"{', '.join(files) or 'none: name the files themselves'}"
        )
    other = source.get("other_files", {}).get(split)
    names = [files[split], *([other] if other else [])]
    root = pathlib.Path(data_dir)
    for folder in (root / source["folder"], root):
        for name in names:
            for path in (folder / name, folder / f"{name}.gz"):
                if path.exists():
                    return path
    raise InputError(
        f"{root}: {task} lacks {' or '.join(names)} (or .gz); name the "
        "folder that has it, or the files themselves"
    )
