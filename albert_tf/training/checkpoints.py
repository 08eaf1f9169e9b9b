"""Checkpoints of runs, under stable public names.

A run's checkpoints are TensorFlow checkpoints, `checkpoints/step-00001000.*`,
with the entries `model/<variable>`, `optimizer/<variable>/adam_m` and
`.../adam_v`, `loss_scale/...` (float16 only), `step` and `seed`. The names come
from `variable.path`, not from Keras' object graph, so no change inside of Keras
orphans them. The position in the training data is the step.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf.errors import InputError
from albert_tf.training.variables import by_name

FOLDER = "checkpoints"

_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"
_UNFINISHED = "unfinished-"


class Checkpoints:
    """The checkpoints of one run: writes, lists, restores and prunes them.

    In a run of several workers every one restores, from the same folder, and
    only the chief writes.

    Args:
      folder: where they are; created by the first save.
      variables: what to save, by stable name; see `training_variables`.
      seed: the seed of the run; a checkpoint of another seed is refused.
      keep: how many of the newest checkpoints stay.
      writes: whether this process writes.
    """

    def __init__(
        self,
        folder: str | os.PathLike,
        variables: Mapping[str, tf.Variable],
        *,
        seed: int = 0,
        keep: int = 5,
        writes: bool = True,
    ):
        self._folder = os.fspath(folder)
        self._variables = dict(variables)
        self._keep = keep
        self._writes = writes
        self._seed = seed
        self._step = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._checkpoint = tf.train.Checkpoint(
            **_nest(self._variables),
            step=self._step,
            seed=tf.Variable(seed, dtype=tf.int64, trainable=False),
        )
        if writes:
            self._remove_unfinished()

    def save(self, step: int) -> str:
        """Writes the checkpoint of `step`; it is listed once it is complete.

        Removes those that are more than `keep` behind, and those of later
        steps: a run that went back behind them is rewriting that history.

        Returns:
          The path without extension, as `tf.train.load_checkpoint` takes it.
        """
        prefix = os.path.join(self._folder, f"step-{step:08d}")
        if not self._writes:
            return prefix
        tf.io.gfile.makedirs(self._folder)
        self._step.assign(step)
        # TensorFlow writes the index in place, so one that is there may still
        # be incomplete; under its final name it must not be.
        unfinished = os.path.join(self._folder, _UNFINISHED + str(step))
        self._checkpoint.write(unfinished)
        _remove(prefix)
        for path in tf.io.gfile.glob(unfinished + ".data-*"):
            tf.io.gfile.rename(path, prefix + path.removeprefix(unfinished))
        tf.io.gfile.rename(unfinished + ".index", prefix + ".index")
        self._prune(step)
        return prefix

    def _prune(self, step: int) -> None:
        found = list_checkpoints(self._folder)
        older = [s for s in found if s < step]
        stale = older[: max(0, len(older) - self._keep + 1)]
        for other in [*stale, *(s for s in found if s > step)]:
            _remove(found[other])

    def restore_latest(self) -> int | None:
        """Restores the newest checkpoint that can be read.

        A damaged one is passed over, with a warning, for the one before.

        Returns:
          Its step, or None where there is no checkpoint yet.

        Raises:
          InputError: the checkpoint is of another model, optimizer or seed, or
            none of those that are there can be read. Nothing is restored.
        """
        found = list_checkpoints(self._folder)
        for step in reversed(found):
            try:
                values = read_checkpoint(found[step])
            except InputError as error:
                logging.warning("%s; going back to the one before", error)
                continue
            self._restore(values, found[step])
            return step
        if found:
            raise InputError(
                f"none of the {len(found)} checkpoints in {self._folder} can "
                "be read; restore them from a backup or use another folder"
            )
        return None

    def _restore(self, values: dict[str, np.ndarray], source: str) -> None:
        seed = int(values.pop("seed", -1))
        values.pop("step", None)
        if seed != self._seed:
            raise InputError(
                f"{source} was trained with seed={seed}, not {self._seed}; use "
                "that seed or another folder"
            )
        unknown = sorted(values.keys() - self._variables.keys())
        if unknown:
            raise InputError(
                f"{source} holds {unknown[0]}, which this run does not have; "
                "resume with the settings it was written with"
            )
        _assign(self._variables, values, source)

    def _remove_unfinished(self) -> None:
        """Removes what a process that died while writing has left."""
        if not tf.io.gfile.isdir(self._folder):
            return
        complete = set(list_checkpoints(self._folder).values())
        for name in tf.io.gfile.listdir(self._folder):
            path = os.path.join(self._folder, name.rstrip("/"))
            data = re.fullmatch(r"(.*/step-\d+)\.data-.*", path)
            if name.startswith(_UNFINISHED) and tf.io.gfile.isdir(path):
                tf.io.gfile.rmtree(path)
            elif name.startswith(_UNFINISHED) or (
                data and data[1] not in complete
            ):
                tf.io.gfile.remove(path)


def training_variables(
    model: Any, optimizer: Any, loss_scale: Any = None
) -> dict[str, tf.Variable]:
    """Returns all variables that a resumed run needs, by name."""
    named = {f"model/{n}": v for n, v in by_name(model.weights).items()}
    named |= {f"optimizer/{n}": v for n, v in optimizer.slots.items()}
    if loss_scale is not None:
        scale = loss_scale.variables
        named |= {f"loss_scale/{n}": v for n, v in scale.items()}
    return named


def list_checkpoints(folder: str | os.PathLike) -> dict[int, str]:
    """Returns the complete checkpoints of a folder, step -> path, in order."""
    folder = os.fspath(folder)
    if not tf.io.gfile.isdir(folder):
        return {}
    # The index comes last, so where it is, the data are.
    names = (
        re.fullmatch(r"(step-(\d+))\.index", name)
        for name in tf.io.gfile.listdir(folder)
    )
    found = {int(m[2]): os.path.join(folder, m[1]) for m in names if m}
    return dict(sorted(found.items()))


def read_checkpoint(prefix: str | os.PathLike) -> dict[str, np.ndarray]:
    """Reads a whole checkpoint into memory, checksums verified.

    Args:
      prefix: its path without extension.

    Returns:
      The arrays by name: `model/<variable>`, ..., `step`, `seed`.

    Raises:
      InputError: it is damaged or not there.
    """
    prefix = os.fspath(prefix)
    try:
        reader = tf.train.load_checkpoint(prefix)
        return {
            key.removesuffix(_SUFFIX): reader.get_tensor(key)
            for key in reader.get_variable_to_shape_map()
            if key.endswith(_SUFFIX)
        }
    # IndexError is what the reader makes of "out of range": a file cut short.
    except (tf.errors.OpError, IndexError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"checkpoint {prefix} cannot be read ({reason})"
        ) from error


def load_model_variables(
    model: Any, path: str | os.PathLike, *, allow_unused: bool = False
) -> int:
    """Loads the weights of a model, and nothing else, from a run.

    Args:
      model: a Keras model whose variables have the names of the run's model.
      path: the run's folder (its newest checkpoint) or one checkpoint's path
        without extension.
      allow_unused: whether the run's model may have variables that `model` has
        not, such as the pretraining heads when an encoder is loaded.

    Returns:
      The step of the checkpoint.

    Raises:
      InputError: there is no checkpoint, it cannot be read, or a variable is
        missing, unused or of another shape. The model is then unchanged.
    """
    prefix = _find(os.fspath(path))
    values = read_checkpoint(prefix)
    variables = {f"model/{n}": v for n, v in by_name(model.weights).items()}
    unused = sorted(
        name
        for name in values.keys() - variables.keys()
        if name.startswith("model/")
    )
    if unused and not allow_unused:
        raise InputError(
            f"{prefix} holds {unused[0]}, which the model does not have; load "
            "it into the model it was trained as"
        )
    _assign(variables, values, prefix)
    return int(values["step"])


def _find(path: str) -> str:
    if tf.io.gfile.exists(path + ".index"):
        return path
    for folder in (os.path.join(path, FOLDER), path):
        found = list_checkpoints(folder)
        if found:
            return found[max(found)]
    raise InputError(
        f"{path}: no checkpoint there; give the folder of a run or a "
        "checkpoint's path without extension"
    )


def _assign(
    variables: Mapping[str, tf.Variable],
    values: Mapping[str, np.ndarray],
    source: str,
) -> None:
    """Assigns all values, or none where one does not fit."""
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


def _nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Turns `{"a/b": x}` into `{"a": {"b": x}}`, which is saved as `a/b`."""
    nested: dict[str, Any] = {}
    for name, value in flat.items():
        *parents, leaf = name.split("/")
        node = nested
        for parent in parents:
            node = node.setdefault(parent, {})
            if not isinstance(node, dict):
                raise ValueError(f"a variable is named like a part of {name!r}")
        if leaf in node:
            raise ValueError(
                f"{name!r} is the start of another variable's name"
            )
        node[leaf] = value
    return nested


def _remove(prefix: str) -> None:
    """Removes a checkpoint, if there is one, from the listing first."""
    for pattern in (prefix + ".index", prefix + ".data-*"):
        for path in tf.io.gfile.glob(pattern):
            tf.io.gfile.remove(path)
