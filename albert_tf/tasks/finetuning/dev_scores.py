"""The scores of a model on a development set, as it is."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.models.base import AlbertModel
from albert_tf.tasks.finetuning.kinds.base import Prepared, TaskKind
from albert_tf.tasks.finetuning.row_predictor import RowPredictor


def make_predictor(
    strategy: tf.distribute.Strategy,
    model: AlbertModel,
    kind: TaskKind,
    *,
    batch_size: int,
    fixed_length: bool = False,
) -> RowPredictor:
    """Returns what runs a model on rows of a task.

    Args:
      strategy: of the model.
      model: the model.
      kind: of the task.
      batch_size: rows of a batch.
      fixed_length: whether all batches have one shape, as XLA wants it.
    """
    return RowPredictor(
        strategy,
        model,
        kind.forward,
        token_outputs=kind.token_outputs,
        batch_size=batch_size,
        fixed_length=kind.max_seq_length if fixed_length else None,
    )


class DevScores:
    """Predicts the examples that it is given, and scores the predictions.

    Args:
      kind: of the task.
      prepared: examples with labels.
      predictor: runs the model.
    """

    def __init__(
        self, kind: TaskKind, prepared: Prepared, predictor: RowPredictor
    ):
        self._kind = kind
        self._prepared = prepared
        self._predictor = predictor

    def __call__(self) -> dict[str, float]:
        """Returns the scores of the model by name."""
        outputs = self._predictor(self._prepared.rows)
        predictions = self._kind.predictions(self._prepared, outputs)
        return self._kind.scores(self._prepared.examples, predictions)
