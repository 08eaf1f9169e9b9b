"""Checkpoints as files: named, listed, read, written and removed.

A checkpoint is a TensorFlow checkpoint, `step-00001000.*`, with the entries
`model/<variable>`, `optimizer/<variable>/adam_m` and `.../adam_v`, `step` and
`seed`, and what else a run has: `average/...`, `loss_scale/...`, `rollbacks`.
The names come from `variable.path`, not from Keras' object graph, so no change
inside of Keras orphans them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training.best_checkpoint import read_best

FOLDER = "checkpoints"
BEST = "best"

# What `tf.train.Checkpoint` appends to the path of an object.
_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"
_UNFINISHED = "unfinished-"


def checkpoint_path(folder: str, step: int) -> str:
    """Returns the path, without extension, of the checkpoint of a step."""
    return os.path.join(folder, f"step-{step:08d}")


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
        # `tf.train.load_checkpoint` would also take it for a folder.
        reader = tf.compat.v1.train.NewCheckpointReader(prefix)
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


def find_checkpoint(path: str | os.PathLike) -> str:
    """Finds one checkpoint of a run.

    Args:
      path: the run's folder, or the folder of its checkpoints, for the newest;
        either with `/best` for the one that scored best; or a checkpoint's path
        without extension.

    Returns:
      Its path without extension.

    Raises:
      InputError: there is none.
    """
    path = os.fspath(path)
    if tf.io.gfile.exists(path + ".index"):
        return path
    parent, name = os.path.split(path)
    for folder in (os.path.join(path, FOLDER), path):
        found = list_checkpoints(folder)
        if found:
            return found[max(found)]
    if name == BEST:
        for folder in (os.path.join(parent, FOLDER), parent):
            best = read_best(folder)
            if best is not None:
                return checkpoint_path(folder, best.step)
    raise InputError(
        f"{path}: no checkpoint there; give the folder of a run, or that "
        f"folder/{BEST} where it has --best_metric, or a checkpoint's path "
        "without extension"
    )


def write_checkpoint(
    folder: str, step: int, values: Mapping[str, tf.Tensor]
) -> None:
    """Writes the checkpoint of a step; it is listed once it is complete.

    Raises:
      OSError: it cannot be written. What is there already stays.
    """
    prefix = checkpoint_path(folder, step)
    # TensorFlow writes the index in place, so one that is there may still be
    # incomplete; under its final name it must not be.
    unfinished = os.path.join(folder, _UNFINISHED + str(step))
    try:
        tf.io.gfile.makedirs(folder)
        with tf.device("CPU:0"):
            tf.raw_ops.SaveV2(
                prefix=unfinished,
                tensor_names=[name + _SUFFIX for name in values],
                shape_and_slices=[""] * len(values),
                tensors=list(values.values()),
            )
        remove_checkpoint(prefix)
        for path in tf.io.gfile.glob(unfinished + ".data-*"):
            tf.io.gfile.rename(path, prefix + path.removeprefix(unfinished))
        tf.io.gfile.rename(unfinished + ".index", prefix + ".index")
    except tf.errors.OpError as error:
        remove_unfinished(folder)
        reason = str(error).splitlines()[0]
        raise OSError(
            f"checkpoint {prefix} cannot be written ({reason}); what was saved "
            "before is intact, and the same command resumes from there"
        ) from error


def remove_checkpoint(prefix: str) -> None:
    """Removes a checkpoint, if there is one, from the listing first."""
    for pattern in (prefix + ".index", prefix + ".data-*"):
        for path in tf.io.gfile.glob(pattern):
            tf.io.gfile.remove(path)


def remove_unfinished(folder: str) -> None:
    """Removes what a process that died while writing has left."""
    if not tf.io.gfile.isdir(folder):
        return
    complete = set(list_checkpoints(folder).values())
    for name in tf.io.gfile.listdir(folder):
        path = os.path.join(folder, name.rstrip("/"))
        data = re.fullmatch(r"(.*/step-\d+)\.data-.*", path)
        if name.startswith(_UNFINISHED) and tf.io.gfile.isdir(path):
            tf.io.gfile.rmtree(path)
        elif name.startswith(_UNFINISHED) or (data and data[1] not in complete):
            tf.io.gfile.remove(path)
