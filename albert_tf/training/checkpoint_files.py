"""Checkpoint files: list, find, read and write them."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.files import split_patterns
from albert_tf.input_files import check_regular
from albert_tf.interop.run_folder import CHECKPOINTS, STEP
from albert_tf.interop.tf_checkpoint import SUFFIX
from albert_tf.training.best_checkpoint import read_best

BEST = "best"

# Name of the state of the `TimeBudget` in a checkpoint.
TIME = "time"

_UNFINISHED = "unfinished-"


def checkpoint_path(folder: str, step: int) -> str:
    """Returns the path, without extension, of the checkpoint of a step."""
    return os.path.join(folder, f"step-{step:08d}")


def list_checkpoints(folder: str | os.PathLike[str]) -> dict[int, str]:
    """Returns the complete checkpoints in a folder: step -> path, sorted."""
    folder = os.fspath(folder)
    if not tf.io.gfile.isdir(folder):
        return {}
    # The index is written last: where it exists, the data are complete.
    stems = (
        STEP.fullmatch(name.removesuffix(".index"))
        for name in tf.io.gfile.listdir(folder)
        if name.endswith(".index")
    )
    found = {int(m[1]): os.path.join(folder, m[0]) for m in stems if m}
    return dict(sorted(found.items()))


def run_checkpoints(run_dir: str | os.PathLike[str]) -> dict[int, str]:
    """Returns the complete checkpoints of a run; see `list_checkpoints`."""
    return list_checkpoints(os.path.join(os.fspath(run_dir), CHECKPOINTS))


def read_checkpoint(prefix: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Reads a whole checkpoint into memory and verifies its checksums.

    Returns the arrays by name: `model/<variable>`, ..., `step`, `seed`. A
    missing or damaged checkpoint is an `InputError`.
    """
    prefix = os.fspath(prefix)
    for path in glob.glob(f"{glob.escape(prefix)}.*"):  # none of remote ones
        check_regular(path)
    try:
        # `tf.train.load_checkpoint` would also accept a folder.
        reader = tf.compat.v1.train.NewCheckpointReader(prefix)
        return {
            key.removesuffix(SUFFIX): reader.get_tensor(key)
            for key in reader.get_variable_to_shape_map()
            if key.endswith(SUFFIX)
        }
    # The reader raises IndexError for a truncated file ("out of range").
    except (tf.errors.OpError, IndexError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"checkpoint {prefix} cannot be read ({reason})"
        ) from error


def read_time(prefix: str) -> tuple[float, ...]:
    """Reads the state of the `TimeBudget` of a checkpoint; () without one."""
    try:
        reader = tf.compat.v1.train.NewCheckpointReader(prefix)
        return tuple(map(float, reader.get_tensor(TIME + SUFFIX)))
    except (tf.errors.OpError, ValueError, IndexError):
        return ()  # A damaged checkpoint is reported when it is restored.


def _checkpoints_in(folder: str) -> dict[int, str]:
    """Returns the checkpoints of a run's folder, or in a folder of them."""
    return run_checkpoints(folder) or list_checkpoints(folder)


def find_checkpoint(path: str | os.PathLike[str]) -> str:
    """Finds one checkpoint of a run, and returns its path without extension.

    Args:
      path: a run's folder or the folder of its checkpoints, for the newest
        checkpoint; either with `/best` appended, for the best one; or the path
        of a checkpoint without extension.

    Raises:
      InputError: if there is no checkpoint.
    """
    path = os.fspath(path)
    if tf.io.gfile.exists(path + ".index"):
        return path
    if found := _checkpoints_in(path):
        return found[max(found)]
    parent, name = os.path.split(path)
    if name == BEST:
        for folder in (os.path.join(parent, CHECKPOINTS), parent):
            best = read_best(folder)
            if best is not None:
                return checkpoint_path(folder, best.step)
    raise InputError(
        f"{path}: no checkpoint there; pass the folder of a run, "
        f"FOLDER/{BEST} if the run has --best_metric, or the path of a "
        "checkpoint without extension"
    )


def write_checkpoint(
    folder: str, step: int, values: Mapping[str, tf.Tensor]
) -> None:
    """Writes the checkpoint of a step, which appears once it is complete.

    Raises:
      OSError: if it cannot be written. Existing checkpoints are kept.
    """
    prefix = checkpoint_path(folder, step)
    # TensorFlow does not write the index atomically, so it gets its final name
    # only when it is complete.
    unfinished = os.path.join(folder, _UNFINISHED + str(step))
    try:
        tf.io.gfile.makedirs(folder)
        with tf.device("CPU:0"):
            tf.raw_ops.SaveV2(
                prefix=unfinished,
                tensor_names=[name + SUFFIX for name in values],
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
            f"checkpoint {prefix} cannot be written ({reason}); earlier ones "
            "are intact, and the same command resumes from them"
        ) from error


def remove_checkpoint(prefix: str) -> None:
    """Removes a checkpoint if it exists, its index first."""
    for pattern in (prefix + ".index", prefix + ".data-*"):
        for path in tf.io.gfile.glob(pattern):
            tf.io.gfile.remove(path)


def remove_unfinished(folder: str) -> None:
    """Removes what a process that was killed while writing left behind."""
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


def match_checkpoints(
    patterns: str | Sequence[str | os.PathLike[str]],
) -> list[str]:
    """Finds all complete checkpoints that match patterns.

    Args:
      patterns: globs, comma-separated or a list. Each matches checkpoint files
        (`run/checkpoints/step-*`), or folders of checkpoints or of runs, for
        all checkpoints in them; or is the path of a checkpoint without
        extension.

    Returns:
      Unique paths without extension, sorted by folder and step; at least one
      for each pattern.
    """
    found = {}
    for pattern in split_patterns(patterns):
        matches = [
            match
            for path in _paths(pattern)
            for match in _checkpoints_of(path).items()
        ]
        if not matches:
            raise InputError(
                f"checkpoints {pattern!r}: no complete checkpoint there; pass "
                "a pattern such as 'run/checkpoints/step-*'"
            )
        found |= {path: step for step, path in matches}
    return sorted(found, key=lambda path: (os.path.dirname(path), found[path]))


def _paths(pattern: str) -> list[str]:
    if tf.io.gfile.exists(pattern):
        return [pattern]  # The name itself may contain glob characters.
    # The path of a checkpoint without extension matches no file.
    for candidate in (pattern, f"{pattern}.index"):
        paths = tf.io.gfile.glob(candidate) if pattern else []
        if paths:
            return paths
    return []


def _checkpoints_of(path: str) -> dict[int, str]:
    """Returns step -> checkpoint, for a checkpoint file or a folder."""
    path = path.rstrip("/")
    if tf.io.gfile.isdir(path):
        return _checkpoints_in(path)
    match = re.fullmatch(r"(.*step-(\d+))\.(index|data-.*)", path)
    if match and tf.io.gfile.exists(f"{match[1]}.index"):
        return {int(match[2]): match[1]}
    return {}
