"""The values of a checkpoint as those of variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training.checkpoint_files import find_checkpoint, read_checkpoint
from albert_tf.training.variables import by_name


def load_model_variables(model: Any, path: str | os.PathLike) -> int:
    """Loads the weights of a model, and nothing else, from a run.

    Of a run that averages its weights, these are the averages, of which its
    evaluations are.

    Args:
      model: a Keras model whose variables have the names of the run's model.
      path: see `find_checkpoint`: the run's folder for its newest checkpoint.

    Returns:
      The step of the checkpoint.

    Raises:
      InputError: there is no checkpoint, it cannot be read, or a variable is
        missing, unused or of another shape. The model is then unchanged.
    """
    prefix = find_checkpoint(path)
    values = read_checkpoint(prefix)
    for name in [n for n in values if n.startswith("average/")]:
        values["model/" + name.removeprefix("average/")] = values[name]
    variables = {f"model/{n}": v for n, v in by_name(model.weights).items()}
    unused = sorted(
        name
        for name in values.keys() - variables.keys()
        if name.startswith("model/")
    )
    if unused:
        raise InputError(
            f"{prefix} holds {unused[0]}, which the model does not have; load "
            "it into the model it was trained as"
        )
    assign_values(variables, values, prefix)
    return int(values["step"])


def assign_values(
    variables: Mapping[str, tf.Variable],
    values: Mapping[str, np.ndarray],
    source: str,
) -> None:
    """Assigns a value to every variable, or none where one does not fit.

    Args:
      variables: by name.
      values: by the same names; others are passed over.
      source: the checkpoint, for errors.

    Raises:
      InputError: a value is missing or of another shape.
    """
    for name, variable in variables.items():
        if name not in values:
            raise InputError(
                f"{source} has no {name}; it was written for another model or "
                "optimizer"
            )
        if values[name].shape != tuple(variable.shape):
            raise InputError(
                f"{source}: {name} has shape {list(values[name].shape)}, but "
                f"{variable.shape.as_list()} is needed; it was written for "
                "another model"
            )
    for name, variable in variables.items():
        variable.assign(values[name])
