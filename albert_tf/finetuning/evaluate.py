"""Scores of fine-tuned models on examples with labels."""

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


def evaluate(
    model: str | os.PathLike[str],
    input: str | os.PathLike[str],
    *,
    batch_size: int = 64,
) -> dict[str, float]:
    """Scores a fine-tuned model, or the newest checkpoint of a pretraining run.

    Args:
      model: folder of a fine-tuning run, of its model, or of a pretraining run.
      input: a file of the model's task, with labels; or a folder of pretraining
        records, whose held-out split is used.
      batch_size: examples of a batch.

    Returns:
      The scores by metric, the key metric of a task first.

    Raises:
      InputError: the model or the input cannot be read, or do not fit together.
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
    task_type: TaskType, chunks: Sequence[Predictions]
) -> tuple[dict[str, float], str]:
    """Scores predictions of examples with labels.

    Args:
      task_type: the task.
      chunks: all predictions, in chunks.

    Returns:
      The scores of the model, or of the ensemble, the key metric first; and of
      an ensemble, a line on what it gains in the key metric, else "".

    Raises:
      InputError: an example has no label, or there is no example.
    """
    examples = [x for chunk in chunks for x in chunk.examples]
    if not examples:
        raise InputError("there is no example to score")
    for example in examples:
        if not task_type.has_label(example):
            raise InputError(f"{example.location}: no label, so no score")
    scores = task_type.scores(
        examples, [p for chunk in chunks for p in chunk.predictions]
    )
    names = chunks[0].members
    if len(names) == 1:
        return scores, ""
    key = task_type.task_config.key_metric
    members = [
        task_type.scores(
            examples, [p for chunk in chunks for p in chunk.members[name]]
        )[key]
        for name in names
    ]
    return scores, _gain(key, scores[key], members)


def _gain(metric: str, score: float, members: Sequence[float]) -> str:
    """Compares the score of an ensemble with those of its members."""
    over_best = score - max(members)
    over_mean = score - float(np.mean(members))
    return (
        f"{metric} {score:.4f}: {over_best:+.4f} against the best and "
        f"{over_mean:+.4f} against the mean of its {len(members)} members "
        f"({', '.join(f'{x:.4f}' for x in members)})"
    )
