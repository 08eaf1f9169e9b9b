"""Registry of pretraining objectives."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypeVar

from albert_tf.data.order_shortcuts import LABELS
from albert_tf.errors import InputError
from albert_tf.objectives.masked_language_modeling import (
    MaskedLanguageModeling,
)
from albert_tf.objectives.objective import Objective
from albert_tf.objectives.replaced_token_detection import (
    ReplacedTokenDetection,
)
from albert_tf.settings import settings_of
from albert_tf.user_modules import import_user_module

_ObjectiveClass = TypeVar("_ObjectiveClass", bound=type[Objective])

_OBJECTIVES: dict[str, type[Objective]] = {
    cls.name: cls for cls in (MaskedLanguageModeling, ReplacedTokenDetection)
}
# Files that registered an objective.
_MODULES: set[str] = set()


def register_objective(cls: _ObjectiveClass) -> _ObjectiveClass:
    """Class decorator that registers an objective under its name.

    Raises:
      InputError: if another class with this name is registered.
    """
    known = _OBJECTIVES.setdefault(cls.name, cls)
    if known is not cls:
        raise InputError(
            f"objective {cls.name!r} is already defined by {known.__module__}; "
            "give the new one another name"
        )
    return cls


def load_objective_module(path: str | os.PathLike[str]) -> None:
    """Imports a Python file that registers objectives, once.

    Raises:
      InputError: if the file does not exist, cannot be imported or registers no
        objective.
    """
    before = dict(_OBJECTIVES)
    file = import_user_module(path, "objective_module", _OBJECTIVES)
    if file not in _MODULES and _OBJECTIVES == before:
        raise InputError(
            f"objective_module={os.fspath(path)}: registers no objective; "
            "decorate its class with @register_objective"
        )
    _MODULES.add(file)


def objective_class(name: str) -> type[Objective]:
    """Returns the class of an objective.

    Raises:
      InputError: if no objective has this name.
    """
    if name not in _OBJECTIVES:
        raise InputError(
            f"objective={name!r} must be one of {', '.join(_OBJECTIVES)}, or "
            "be defined by --objective_module"
        )
    return _OBJECTIVES[name]


def baselines_of(metric: str, scores: Mapping[str, float]) -> dict[str, float]:
    """Returns the scores of guessing that a metric is to be compared with.

    Args:
      metric: name of a metric of an objective, or of sentence pairs.
      scores: scores by name, such as `Records.baselines`.

    Returns:
      Those of them that belong to the metric: label -> score.
    """
    labels = _baseline_labels().get(metric, {})
    return {labels[name]: scores[name] for name in labels if name in scores}


def is_baseline(name: str) -> bool:
    """Returns whether a score is one of guessing, and has none itself."""
    labels = _baseline_labels()
    return name not in labels and any(name in x for x in labels.values())


def _baseline_labels() -> dict[str, dict[str, str]]:
    """Returns metric -> name -> label of its scores of guessing."""
    labels = {
        metric: {name: label}
        for cls in _OBJECTIVES.values()
        for metric, (name, label) in cls.baselines.items()
    }
    for task in ("sop", "nsp"):
        labels[f"{task}_accuracy"] = {
            f"{task}_{name}": label for name, label in LABELS.items()
        }
    return labels


def make_objective(
    name: str = "mlm",
    settings: Mapping[str, Any] | None = None,
    *,
    pair_task: str = "sop",
    mask_id: int | None = None,
) -> Objective:
    """Creates an objective.

    Args:
      name: its name, such as "mlm" or "rtd".
      settings: values of its settings; the others have their defaults.
      pair_task: task of sentence pairs: "sop", "nsp" or "none".
      mask_id: id of [MASK], if it is known.

    Raises:
      InputError: if there is no such objective, it has no such setting, or a
        value is not valid.
    """
    cls = objective_class(name)
    known = [declared.name for declared in settings_of(cls)]
    for key in settings or {}:
        if key not in known:
            has = f"only {', '.join(known)}" if known else "none"
            raise InputError(
                f"objective_settings: {name} has no setting {key!r}, {has}"
            )
    try:
        return cls(pair_task=pair_task, mask_id=mask_id, **settings or {})
    except InputError as error:
        raise InputError(f"objective_settings: {error}") from None
