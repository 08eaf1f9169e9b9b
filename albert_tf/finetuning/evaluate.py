"""Scores of fine-tuned models on examples with labels."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence

import numpy as np

from albert_tf.errors import InputError
from albert_tf.finetuning.data import labelled_examples
from albert_tf.finetuning.predictor import Predictions, Predictor
from albert_tf.finetuning.task_type import TaskType
from albert_tf.interop.formats.run_folder import fine_tuned_model
from albert_tf.pretraining.evaluate import evaluate_pretraining


@dataclasses.dataclass(frozen=True, kw_only=True)
class EnsembleGain:
    """A metric of an ensemble, beside those of its members; more is better.

    Attributes:
      metric: its name.
      members: model -> its score.
      ensemble: the score of the ensemble.
    """

    metric: str
    members: Mapping[str, float]
    ensemble: float

    @property
    def over_best(self) -> float:
        """What the ensemble has more than its best member."""
        return self.ensemble - max(self.members.values())

    @property
    def over_mean(self) -> float:
        """What it has more than its members' mean."""
        return self.ensemble - float(np.mean(list(self.members.values())))

    def __str__(self) -> str:
        scores = ", ".join(f"{x:.4f}" for x in self.members.values())
        return (
            f"{self.metric} {self.ensemble:.4f}: {self.over_best:+.4f} against "
            f"the best and {self.over_mean:+.4f} against the mean of its "
            f"{len(self.members)} members ({scores})"
        )


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
) -> tuple[dict[str, float], EnsembleGain | None]:
    """Scores predictions of examples with labels.

    Args:
      task_type: the task.
      chunks: all predictions, in chunks.

    Returns:
      The scores of the model, or of the ensemble, the key metric first; and of
      an ensemble, what it gains in the key metric.

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
    members = {
        name: task_type.scores(
            examples, [p for chunk in chunks for p in chunk.members[name]]
        )
        for name in chunks[0].members
    }
    if len(members) == 1:
        return scores, None
    key = task_type.task_config.key_metric
    gain = EnsembleGain(
        metric=key,
        members={name: found[key] for name, found in members.items()},
        ensemble=scores[key],
    )
    return scores, gain
