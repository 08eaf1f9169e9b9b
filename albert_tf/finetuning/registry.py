"""Registry of task types and named tasks."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from albert_tf.errors import InputError
from albert_tf.finetuning.embedding.task import Embedding
from albert_tf.finetuning.multiple_choice.task import MultipleChoice
from albert_tf.finetuning.question_answering.task import QuestionAnswering
from albert_tf.finetuning.task_config import (
    TaskConfig,
    check_metric_names,
    check_task_settings,
)
from albert_tf.finetuning.task_type import TaskType
from albert_tf.finetuning.text_classification.task import (
    Regression,
    TextClassification,
)
from albert_tf.finetuning.token_classification.task import TokenClassification
from albert_tf.user_modules import Registry

if TYPE_CHECKING:
    from albert_tf.text.base_tokenizer import Tokenizer

_TASK_TYPES = Registry(
    TaskType,
    "task type",
    "task_module",
    (
        TextClassification,
        Regression,
        MultipleChoice,
        QuestionAnswering,
        TokenClassification,
        Embedding,
    ),
)
register_task_type = _TASK_TYPES.register
load_task_module = _TASK_TYPES.load_module


def task_type_class(task_config: TaskConfig) -> type[TaskType]:
    """Returns the class of a task's type.

    The module that `task.json` names is not imported, as a model may come from
    strangers.

    Raises:
      InputError: if no task type with this name is registered.
    """
    name, module = task_config.task_type, task_config.task_module
    if name in _TASK_TYPES:
        return _TASK_TYPES[name]
    if module is not None:
        raise InputError(
            f"task type {name!r} is defined by {module}; give this file as "
            "--task_module, or import it in Python, to execute it"
        )
    raise InputError(
        f"task_type={name!r} must be one of {', '.join(_TASK_TYPES)}, or be "
        "defined by --task_module"
    )


def make_task_type(
    task_config: TaskConfig, tokenizer: Tokenizer | None = None
) -> TaskType:
    """Returns the task type of a task; features need the model's tokenizer.

    Raises:
      InputError: if the task type is unknown, or the settings are not valid.
    """
    cls = task_type_class(task_config)
    check_task_settings(task_config.settings, cls.default_settings)
    return cls(task_config, tokenizer)


def known_tasks() -> dict[str, TaskConfig]:
    """Returns the tasks of all registered task types by name."""
    return {
        task.name: dataclasses.replace(
            task, task_module=_TASK_TYPES.files.get(cls.name)
        )
        for cls in _TASK_TYPES.values()
        for task in cls.known_tasks
    }


def known_task(name: str) -> TaskConfig:
    """Returns the task with a name, or raises an `InputError`."""
    tasks = known_tasks()
    if name not in tasks:
        raise InputError(f"task={name!r} must be one of {', '.join(tasks)}")
    return tasks[name]


def with_metrics(task_config: TaskConfig, metrics: Sequence[str]) -> TaskConfig:
    """Returns a task with other metrics, the key metric first.

    Raises:
      InputError: if the metrics of the task type are fixed, or do not include
        one of these.
    """
    cls = task_type_class(task_config)
    # Of the class itself: one that is derived from it may have others.
    known = vars(cls).get("metric_names", ())
    if known:
        check_metric_names(metrics, known)
    if not cls.custom_metrics:
        raise InputError(
            f"metrics={','.join(metrics)}: the task {task_config.name} "
            f"always has {', '.join(task_config.metrics)}"
        )
    return dataclasses.replace(task_config, metrics=tuple(metrics))


def with_settings(
    task_config: TaskConfig, changes: Mapping[str, Any]
) -> TaskConfig:
    """Returns a task with other settings; None keeps one.

    Raises:
      InputError: if the task has no such setting, or the settings contradict
        each other.
    """
    optional = task_type_class(task_config).optional_settings
    changes = {
        name: x
        for name, x in changes.items()
        if x is not None
        and (name in task_config.settings or optional.get(name) != x)
    }
    known = {**task_config.settings, **optional}
    for name, value in changes.items():
        if name not in known:
            raise InputError(
                f"{name}={value}: the task {task_config.name} has no such "
                f"setting, only {', '.join(known)}"
            )
    changed = task_config.with_settings(changes)
    make_task_type(changed)  # Raises an error if they are not valid.
    return changed
