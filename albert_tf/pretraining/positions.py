"""Position embeddings that were not trained: copies of the trained ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import tensorflow as tf

from albert_tf.interop.growing import POSITIONS, describe_repeated, repeat_rows
from albert_tf.models.base import AlbertModel
from albert_tf.training.optimizers import by_name

Evaluate = Callable[[], dict[str, float]]


def repeat_trained_positions(
    trained: int, variables: Mapping[str, tf.Variable]
) -> str:
    """Starts untrained position embeddings as copies of the trained ones.

    The rows of moments and averages, which are among the `training_variables`,
    are copied as well, so that the optimizer treats a copy as it does the
    original. (The moments of untrained rows are zero, and the first updates
    would be three times too large.) Returns a line for the log.
    """
    rows = 0
    for name, variable in variables.items():
        if POSITIONS in name:
            rows, _ = variable.shape
            variable.assign(
                repeat_rows(variable.read_value().numpy(), trained, rows)
            )
    return describe_repeated(trained, rows)


def on_repeated_positions(
    evaluate: Evaluate, model: AlbertModel, trained: int
) -> Evaluate:
    """Wraps `evaluate` so that untrained positions are copies while it runs.

    So a model has the scores on longer records that it has when it is opened.
    """
    variables = by_name(model.weights)
    tables = {name: x for name, x in variables.items() if POSITIONS in name}

    def evaluate_copies() -> dict[str, float]:
        before = {name: x.read_value() for name, x in tables.items()}
        repeat_trained_positions(trained, tables)
        try:
            return evaluate()
        finally:
            for name, table in tables.items():
                table.assign(before[name])

    return evaluate_copies
