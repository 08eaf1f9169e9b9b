"""Registry of pretraining objectives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
from albert_tf.user_modules import Registry

_OBJECTIVES = Registry(
    Objective,
    "objective",
    "objective_module",
    (MaskedLanguageModeling, ReplacedTokenDetection),
)
register_objective = _OBJECTIVES.register
load_objective_module = _OBJECTIVES.load_module


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
