"""Configuration of a task, saved as `task.json` next to the weights."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict

from albert_tf.errors import InputError
from albert_tf.input_files import parse_object
from albert_tf.schema import check_type, type_problem
from albert_tf.settings import FEATURES, check_settings, setting, settings_of

_LENGTH = "[1, 1048576]"
# Those of a task type that declares none.
DEFAULT_SETTINGS: Mapping[str, Any] = {"max_seq_length": 512}


# A run records them with its data, see `TaskConfig.identity`.
_feature = functools.partial(setting, group=FEATURES, on_resume="not_recorded")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskSettings:
    """Settings of the library's task types, from which flags are generated.

    Settings that a task type does not have are None. A flag that is not given
    is None, too, and keeps the task's value.
    """

    max_seq_length: int | None = _feature(
        None,
        "Maximum sequence length in tokens; default: the task's.",
        bounds=_LENGTH,
    )
    max_qa_length: int | None = _feature(
        None,
        "Multiple choice: maximum length of question and option in pieces.",
        bounds=_LENGTH,
    )
    doc_stride: int | None = _feature(
        None,
        "Question answering: stride of the windows over a context in pieces.",
        bounds=_LENGTH,
    )
    max_query_length: int | None = _feature(
        None,
        "Question answering: maximum length of a question in pieces.",
        bounds=_LENGTH,
    )
    head: Literal["v1", "joint", "cls", "pair_features"] | None = _feature(
        None,
        "Head of the model. Question answering: v1 predicts start and end "
        "independently; joint predicts the end given the start, and whether "
        "there is an answer. Two texts: cls, the pooled output; pair_features, "
        "u, v, abs(u - v) and u * v of the means u and v of their tokens. "
        "Default: the task's.",
    )
    start_n_top: int | None = _feature(
        None,
        "Question answering, joint head: number of start candidates.",
        bounds="[1, 1024]",
    )
    end_n_top: int | None = _feature(
        None,
        "Question answering, joint head: number of end candidates per start.",
        bounds="[1, 1024]",
    )
    n_best: int | None = _feature(
        None,
        "Question answering: number of best answers to keep.",
        bounds="[1, 10000]",
    )
    max_answer_length: int | None = _feature(
        None,
        "Question answering: maximum length of an answer in pieces.",
        bounds=_LENGTH,
    )

    def __post_init__(self) -> None:
        check_settings(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _AllSettings(TaskSettings):
    """Those of `TaskSettings`, and those that are part of a task."""

    rules: Literal["squad1.1", "squad2.0", "cmrc"] | None = setting(
        None, "Question answering: how answers are chosen and scored."
    )
    null_threshold: float | None = setting(
        None,
        "Question answering, joint head: questions with a higher null score "
        "have no answer.",
    )


def check_task_settings(
    values: Mapping[str, Any], defaults: Mapping[str, Any]
) -> None:
    """Checks the settings of a task.

    All of the task type's `defaults` must be given. A setting that
    `_AllSettings` does not declare must have the type of its default.

    Raises:
      InputError: if a setting is missing, has another type or is out of bounds.
    """
    for name in defaults:
        if name not in values:
            raise InputError(f"settings: {name} is missing")
    declared = {x.name for x in settings_of(_AllSettings)}
    _AllSettings(**{x: y for x, y in values.items() if x in declared})
    for name, value in values.items():
        default = defaults.get(name)
        if default is None:
            continue
        if name in declared and value is None:
            raise InputError(f"{name}=None must be a value")
        problem = type_problem(value, type(default), name)
        if problem and name not in declared:
            raise InputError(problem)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskConfig:
    """A task: its type, labels, metrics and settings.

    Attributes:
      name: name of the task, such as "sst2".
      task_type: name of a registered `TaskType`, such as "text_classification".
      labels: names of the classes, or of the labels of words, in the order of
        the model's outputs; None if the task type has no labels.
      metrics: names of the metrics; the first is the key metric.
      settings: settings of features and predictions as JSON values, such as
        `max_seq_length`; see the task type.
      source: how the task's files are read, as JSON values; see the task type.
      scores: scores on the development set by metric; empty if there is none.
      baselines: those of trivial predictions, by name; see
        `TaskType.baselines`.
      task_module: absolute path of the Python file that defines the task type,
        for error messages; None for built-in task types.
    """

    name: str
    task_type: str
    labels: tuple[str, ...] | None = None
    metrics: tuple[str, ...]
    settings: Mapping[str, Any]
    source: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    scores: Mapping[str, float] = dataclasses.field(default_factory=dict)
    baselines: Mapping[str, Mapping[str, float]] = dataclasses.field(
        default_factory=dict
    )
    task_module: str | None = None

    @property
    def key_metric(self) -> str:
        """The metric that decides which checkpoint is the best."""
        return self.metrics[0]

    def with_settings(self, changes: Mapping[str, Any]) -> TaskConfig:
        """Returns the task with other values of some settings."""
        return dataclasses.replace(self, settings={**self.settings, **changes})

    def with_tuned(self, scores: Mapping[str, Any]) -> TaskConfig:
        """Returns the task with the settings that are among the scores."""
        tuned = {n: scores[n] for n in self.settings if n in scores}
        return self.with_settings(tuned)

    def without_scores(self) -> TaskConfig:
        """Returns the task of a model that is trained further.

        It has no scores, and no settings that were tuned for them.
        """
        tuned = {n: None for n in self.settings if n in self.scores}
        return dataclasses.replace(
            self.with_settings(tuned), scores={}, baselines={}
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns the configuration as JSON values."""
        return json.loads(json.dumps(dataclasses.asdict(self)))

    def to_json(self) -> str:
        """Returns the text of `task.json`."""
        return json.dumps(self.to_dict(), indent=2) + "\n"

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TaskConfig:
        """Creates a configuration from `to_dict()`.

        Raises:
          InputError: if a field is missing, unknown or has the wrong type.
        """
        values = dict(values)
        check_type(values, cls, "task")
        unknown = values.keys() - {x.name for x in dataclasses.fields(cls)}
        if unknown:
            raise InputError(f"task: unknown key {min(unknown)!r}")
        if not values["metrics"]:
            raise InputError("metrics=[] must not be empty")
        for name in ("labels", "metrics"):
            if values.get(name) is not None:
                values[name] = tuple(values[name])
        return cls(**values)

    @classmethod
    def from_json(cls, text: str, path: str) -> TaskConfig:
        """Parses the text of `task.json`.

        Args:
          text: content of the file.
          path: path of the file, for error messages.

        Raises:
          InputError: if the text is not a task configuration.
        """
        try:
            return cls.from_dict(parse_object(text, path))
        except InputError as error:
            problem = str(error).removeprefix(f"{path}: ")
            raise InputError(
                f"{path}: not a task configuration ({problem}); use the file "
                "that `albert finetune` wrote"
            ) from None

    def identity(self) -> dict[str, Any]:
        """Returns all that features depend on, as JSON values.

        A run records it, and compares it when it is resumed.
        """
        return {
            "task_type": self.task_type,
            "labels": self.labels,
            "source": self.source,
            **self.settings,
        }


def check_metric_names(names: Iterable[str], known: Sequence[str]) -> None:
    """Raises an `InputError` for a metric that is not one of the known."""
    for name in names:
        if name not in known:
            raise InputError(
                f"metric {name!r}: must be one of {', '.join(known)}"
            )


class _Source(TypedDict, total=False):
    folder: str
    files: Mapping[str, str]
    other_files: Mapping[str, str]


def split_path(
    task_config: TaskConfig, data_dir: str | os.PathLike[str], split: str
) -> pathlib.Path:
    """Returns the file or folder of a split, such as "train", "dev" or "test".

    Args:
      task_config: the task. Its `source` has `folder`, the name of the task's
        folder, `files`, file names by split, and optionally `other_files`,
        alternative file names.
      data_dir: the task's folder as distributed, or its parent folder.

    Raises:
      InputError: if the task has no such split, or the file does not exist.
    """
    source, task = task_config.source, task_config.name
    check_type(source, _Source, f"source of {task}")
    files = source.get("files", {})
    if split not in files:
        raise InputError(
            f"split={split!r} of {task} must be one of {', '.join(files)}"
            if files
            else f"{task} has no splits; give its files themselves"
        )
    other = source.get("other_files", {}).get(split)
    names = [files[split], *([other] if other else [])]
    root = pathlib.Path(data_dir)
    for folder in (root / source.get("folder", ""), root):
        for name in names:
            for path in (folder / name, folder / f"{name}.gz"):
                if path.exists():
                    return path
    raise InputError(
        f"{root}: {task} has no {' or '.join(names)} (or .gz); give the "
        "folder that contains it, or the files themselves"
    )
