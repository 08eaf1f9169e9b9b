"""Scores of fine-tuned models on examples with labels."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from albert_tf.errors import InputError
from albert_tf.tasks.ensembles import EnsembleGain, ensemble_gains
from albert_tf.tasks.finetuning.kinds.base import TaskKind
from albert_tf.tasks.finetuning.prediction import Predictions


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetunedScores:
    """Scores of a model, or of several as one.

    Attributes:
      scores: metric -> score, the key metric first.
      gain: of several models: what they gain together in the key metric.
    """

    scores: Mapping[str, float]
    gain: EnsembleGain | None


def score_predictions(
    kind: TaskKind, windows: Sequence[Predictions]
) -> FinetunedScores:
    """Scores predictions of examples with labels.

    Args:
      kind: of the task.
      windows: all predictions, in parts.

    Raises:
      InputError: an example has no label, or there is none.
    """
    examples = [x for window in windows for x in window.examples]
    if not examples:
        raise InputError("there is no example to score")
    for example in examples:
        if not kind.has_labels([example]):
            raise InputError(f"{example.place}: no label, so no score")
    together = kind.scores(
        examples, [p for window in windows for p in window.predictions]
    )
    members = {
        name: kind.scores(
            examples, [p for window in windows for p in window.members[name]]
        )
        for name in windows[0].members
    }
    if len(members) == 1:
        return FinetunedScores(scores=together, gain=None)
    key = kind.description.key_metric
    [gain] = ensemble_gains(members, {key: together[key]})
    return FinetunedScores(scores=together, gain=gain)
