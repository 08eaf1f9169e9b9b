"""Evaluation of fine-tuned models on labelled examples."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from albert_tf.errors import InputError
from albert_tf.finetuning.data import labelled_examples
from albert_tf.finetuning.predictor import Predictions, Predictor
from albert_tf.finetuning.task_type import TaskType
from albert_tf.interop.run_folder import fine_tuned_model
from albert_tf.pretraining.evaluate import evaluate_pretraining
from albert_tf.training.best_checkpoint import lower_is_better


def evaluate(
    model: str | os.PathLike[str],
    input: str | os.PathLike[str],
    *,
    batch_size: int = 64,
) -> dict[str, float]:
    """Evaluates a fine-tuned model, or the latest pretraining checkpoint.

    Args:
      model: folder of a fine-tuning run, of its model, or of a pretraining run.
      input: a labelled file of the model's task; or a folder of pretraining
        records, whose held-out split is used.
      batch_size: number of examples per batch.

    Returns:
      Scores by metric, the key metric of the task first.

    Raises:
      InputError: if the model or the input cannot be read, or the input does
        not match the model's task.
    """
    if fine_tuned_model(model) is None:
        return evaluate_pretraining(
            model, os.fspath(input), batch_size=batch_size
        )
    predictor = Predictor(model, batch_size=batch_size)
    examples = labelled_examples(predictor.task_type, [input])
    scores, _ = score_predictions(
        predictor.task_type, list(predictor.chunks(examples))
    )
    return scores


def score_predictions(
    task_type: TaskType,
    chunks: Sequence[Predictions],
    *,
    as_written: bool = False,
) -> tuple[dict[str, float], str]:
    """Scores predictions of labelled examples.

    Args:
      task_type: the task.
      chunks: all predictions, in chunks.
      as_written: whether to score them with the task's settings instead of the
        best ones for the examples; see `TaskType.written_scores`.

    Returns:
      The scores of the model or ensemble, the key metric first; and for an
      ensemble a line that compares its key metric with its members', else "".

    Raises:
      InputError: if an example has no label, or there are no examples.
    """
    examples = [x for chunk in chunks for x in chunk.examples]
    if not examples:
        raise InputError("there are no examples to score")
    for example in examples:
        if not task_type.has_label(example):
            raise InputError(f"{example.location}: no label to score with")
    score = task_type.written_scores if as_written else task_type.scores
    scores = score(examples, [p for chunk in chunks for p in chunk.predictions])
    names = chunks[0].members
    if len(names) == 1:
        return scores, ""
    key = task_type.task_config.key_metric
    members = [
        score(examples, [p for chunk in chunks for p in chunk.members[name]])[
            key
        ]
        for name in names
    ]
    return scores, _ensemble_gain(key, scores[key], members)


def _ensemble_gain(metric: str, score: float, members: Sequence[float]) -> str:
    """Compares the score of an ensemble with those of its members."""
    best = np.nanmin if lower_is_better(metric) else np.nanmax
    over_best = score - float(best(members))
    over_mean = score - float(np.mean(members))
    return (
        f"{metric} {score:.4f}: {over_best:+.4f} against the best and "
        f"{over_mean:+.4f} against the mean of its {len(members)} members "
        f"({', '.join(f'{x:.4f}' for x in members)})"
    )
