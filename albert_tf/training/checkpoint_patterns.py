"""Checkpoints by glob pattern."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.path_patterns import split_patterns
from albert_tf.training.checkpoint_files import FOLDER, list_checkpoints


def match_checkpoints(
    patterns: str | Sequence[str | os.PathLike[str]],
) -> list[str]:
    """Finds all complete checkpoints that patterns stand for.

    Args:
      patterns: globs, separated by commas or as a list. They may match the
        files of checkpoints (`run/checkpoints/step-*`), folders of them, or
        folders of runs, which stand for all that they hold; or be the path of
        one without extension.

    Returns:
      Their paths without extension: each once, folder by folder, and in the
      order of their steps.

    Raises:
      InputError: a pattern stands for none.
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
                f"checkpoints {pattern!r}: no complete checkpoint there; a "
                "pattern such as 'run/checkpoints/step-*' is needed"
            )
        found |= {path: step for step, path in matches}
    return sorted(found, key=lambda path: (os.path.dirname(path), found[path]))


def _paths(pattern: str) -> list[str]:
    if tf.io.gfile.exists(pattern):
        return [pattern]  # Perhaps with the characters of a pattern.
    # A path without extension is that of no file.
    for candidate in (pattern, f"{pattern}.index"):
        paths = tf.io.gfile.glob(candidate) if pattern else []
        if paths:
            return paths
    return []


def _checkpoints_of(path: str) -> dict[int, str]:
    """Returns step -> checkpoint of a file of one, or of a folder of some."""
    path = path.rstrip("/")
    if tf.io.gfile.isdir(path):
        return list_checkpoints(os.path.join(path, FOLDER)) or list_checkpoints(
            path
        )
    match = re.fullmatch(r"(.*step-(\d+))\.(index|data-.*)", path)
    if match and tf.io.gfile.exists(f"{match[1]}.index"):
        return {int(match[2]): match[1]}
    return {}
