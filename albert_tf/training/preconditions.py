"""What must hold before the first step of a run."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training.training_config import TrainingConfig
from albert_tf.training.variables import name_of, tf_variable


def check_preconditions(
    config: TrainingConfig,
    strategy: tf.distribute.Strategy,
    model: Any,
    run_dir: str | os.PathLike | None,
    evaluate: Callable | None,
) -> None:
    """Refuses what could not train, or not do what the settings ask for.

    Raises:
      InputError: says what does not fit together.
      ValueError: the model was created outside of the strategy.
    """
    if not model.trainable_variables:
        raise InputError(
            "the model has no trainable variable; unfreeze some of it"
        )
    if model.compute_dtype == "float16" and not config.dynamic_loss_scale:
        raise InputError(
            "a model in float16 needs dynamic_loss_scale=True, or most of its "
            "gradients are zero; mixed_bfloat16 needs none"
        )
    for variable in model.weights:
        if not strategy.extended.variable_created_in_scope(
            tf_variable(variable)
        ):
            raise ValueError(
                f"variable {name_of(variable)!r} was not created under the "
                "strategy; create the model under strategy.scope()"
            )
    if config.on_divergence == "rollback" and run_dir is None:
        raise InputError(
            "on_divergence='rollback' needs run_dir, where the checkpoints are "
            "that it goes back to"
        )
    if config.best_metric and (run_dir is None or evaluate is None):
        missing = "run_dir" if run_dir is None else "evaluation data"
        raise InputError(
            f"best_metric={config.best_metric!r} needs {missing}; leave it out"
        )
