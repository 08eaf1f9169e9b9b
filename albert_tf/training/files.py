"""Small files that are either complete or not there, also on gs://."""

from __future__ import annotations

import os

import tensorflow as tf

# A file left under such a name was being written when its process died.
PARTIAL = ".partial"


def write_atomically(path: str | os.PathLike, content: str | bytes) -> None:
    """Writes a file under a temporary name and renames it."""
    path = os.fspath(path)
    mode = "wb" if isinstance(content, bytes) else "w"
    with tf.io.gfile.GFile(path + PARTIAL, mode) as file:
        file.write(content)
    tf.io.gfile.rename(path + PARTIAL, path, overwrite=True)


def read_text(path: str | os.PathLike) -> str:
    """Reads a whole text file."""
    with tf.io.gfile.GFile(os.fspath(path)) as file:
        return file.read()
