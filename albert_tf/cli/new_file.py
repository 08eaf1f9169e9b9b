"""Files and folders that a command writes for its user."""

from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Iterator
from typing import TextIO

from albert_tf.errors import InputError


@contextlib.contextmanager
def new_file(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    """Opens a file that appears when the block is done, and not if it fails.

    Args:
      path: its folder must exist.

    Raises:
      InputError: it cannot be written.
    """
    path = pathlib.Path(path)
    partial = path.with_name(f"{path.name}.partial")
    with _named(path):
        file = open(partial, "w", encoding="utf-8", newline="\n")
    try:
        with file:
            yield file
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def new_output_folder(path: str | os.PathLike[str]) -> pathlib.Path:
    """Makes a folder, unless it is there.

    Raises:
      InputError: it cannot be made.
    """
    path = pathlib.Path(path)
    with _named(path):
        path.mkdir(parents=True, exist_ok=True)
    return path


@contextlib.contextmanager
def _named(path: pathlib.Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written: {error.strerror}"
        ) from None
