"""Scores of predictions, and the gain of an ensemble."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from albert_tf.errors import InputError
from albert_tf.finetuning.predictor import Predictions
from albert_tf.finetuning.registry import make_task_type, with_metrics
from albert_tf.finetuning.results import tuned_scores
from albert_tf.finetuning.task_type import TaskType
from albert_tf.training.best_checkpoint import lower_is_better


def scored_by(task_type: TaskType, metrics: Sequence[str]) -> TaskType:
    """Returns a task, without a tokenizer, with these metrics."""
    task_config = task_type.task_config
    if metrics != task_config.metrics:
        task_config = with_metrics(task_config, metrics)
    return make_task_type(task_config)


def check_scored(
    task_type: TaskType,
    examples: Sequence[Any],
    metrics: Sequence[str] | None = None,
) -> Sequence[str]:
    """Checks that predictions of examples can be scored, before they are made.

    Returns the metrics, by default those of `TaskType.metrics_for`.

    Raises:
      InputError: if there are no examples, an example has no label, or the
        task's metrics are not defined for the labels.
    """
    if not examples:
        raise InputError("there are no examples to score")
    for example in examples:
        if not example.has_label:
            raise InputError(f"{example.location}: no label to score with")
    metrics = metrics or task_type.metrics_for(examples)
    scored_by(task_type, metrics).check_scores(examples)
    return metrics


def score_predictions(
    task_type: TaskType,
    chunks: Sequence[Predictions],
    *,
    as_written: bool = False,
) -> tuple[dict[str, float], str]:
    """Scores predictions of examples that `check_scored` has checked.

    Args:
      as_written: whether to score them with the task's settings instead of the
        best ones for the examples; see `TaskType.tune`.

    Returns:
      The scores of the model or ensemble, the key metric first; and for an
      ensemble a line that compares its key metric with its members', else "".
    """
    examples = [x for chunk in chunks for x in chunk.examples]

    def score(predictions: Sequence[Any]) -> dict[str, float]:
        if as_written:
            return task_type.scores(examples, predictions)
        return tuned_scores(task_type, examples, predictions)

    scores = score([p for chunk in chunks for p in chunk.predictions])
    names = chunks[0].members
    if len(names) == 1:
        return scores, ""
    key = task_type.task_config.key_metric
    members = [
        score([p for chunk in chunks for p in chunk.members[name]])[key]
        for name in names
    ]
    errors = task_type.lower_is_better
    return scores, _ensemble_gain(key, scores[key], members, errors)


def _ensemble_gain(
    metric: str,
    score: float,
    members: Sequence[float],
    errors: Sequence[str] = (),
) -> str:
    """Compares the score of an ensemble with those of its members."""
    best = np.nanmin if lower_is_better(metric, errors) else np.nanmax
    over_best = score - float(best(members))
    over_mean = score - float(np.mean(members))
    return (
        f"{metric} {score:.4f}: {over_best:+.4f} against the best and "
        f"{over_mean:+.4f} against the mean of its {len(members)} members "
        f"({', '.join(f'{x:.4f}' for x in members)})"
    )
