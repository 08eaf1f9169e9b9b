"""Evaluation of pretraining runs and fine-tuned models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from albert_tf.errors import InputError
from albert_tf.files import split_patterns
from albert_tf.finetuning.data import Source, find_split, labelled_examples
from albert_tf.finetuning.evaluate_config import EvaluateConfig
from albert_tf.finetuning.model_folder import open_model_folders
from albert_tf.finetuning.predictor import Predictions, Predictor
from albert_tf.finetuning.registry import make_task_type, with_metrics
from albert_tf.finetuning.results import tuned_scores
from albert_tf.finetuning.task_type import TaskType
from albert_tf.objectives.registry import load_objective_module
from albert_tf.pretraining.evaluate import NEWEST, evaluate_pretraining
from albert_tf.settings import takes
from albert_tf.training.best_checkpoint import lower_is_better


@takes(EvaluateConfig)
def evaluate(config: EvaluateConfig) -> dict[str, float]:
    """Evaluates a checkpoint of a pretraining run, or a fine-tuned model.

    Args:
      config: the model and the data.

    Returns:
      Of a fine-tuned model or an ensemble, the scores by metric, the key metric
      first; otherwise see `evaluate_pretraining`.

    Raises:
      InputError: if the model or the data cannot be read, or do not fit
        together.
    """
    scores, _ = evaluate_with_gain(config)
    return scores


def evaluate_with_gain(config: EvaluateConfig) -> tuple[dict[str, float], str]:
    """Returns the scores, and the gain of an ensemble; see `evaluate`."""
    if config.run is not None:
        assert config.input is not None  # The config has checked it.
        if config.objective_module is not None:
            load_objective_module(config.objective_module)
        scores = evaluate_pretraining(
            config.run,
            config.input,
            checkpoint=config.checkpoint or NEWEST,
            split=config.split or "heldout",
            batch_size=config.eval_batch_size,
            max_steps=config.max_eval_steps,
        )
        return scores, ""
    assert config.model is not None
    config.load_task_module()
    models = split_patterns(config.model)
    folders = open_model_folders(models)
    task_type = make_task_type(next(iter(folders.values())).task_config)
    sources: list[Source] = [*split_patterns(config.input or ())] or [
        find_split(
            task_type,
            config.split or "dev",
            source=config.source,
            data=config.data,
        )
    ]
    examples = labelled_examples(task_type, sources, config.on_bad_example)
    metrics = check_scored(task_type, examples, config.metrics)
    predictor = Predictor(
        models, batch_size=config.eval_batch_size, progress=True
    )
    chunks = [predictor.predict_examples(examples)]
    return score_predictions(scored_by(predictor.task_type, metrics), chunks)


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
