"""A folder that appears finished or not at all."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import uuid
from collections.abc import Iterator

from albert_tf.errors import InputError


@contextlib.contextmanager
def new_folder(
    path: str | os.PathLike[str],
    overwrite: bool = False,
    marker: str = "saved_model.pb",
) -> Iterator[pathlib.Path]:
    """Gives the block a temporary folder and renames it to `path` at the end.

    The temporary folder is a hidden sibling of `path`, so that the renaming is
    one step. If the block fails the folder is removed, and whatever was at
    `path` is still there.

    Args:
      path: the folder to make; missing parents are made too.
      overwrite: whether a finished folder at `path` is replaced. Nothing else
        is.
      marker: a file by which a finished folder of this kind is known.

    Yields:
      The temporary folder, which exists and is empty.

    Raises:
      InputError: `path` is taken, is not local, or cannot be made.
    """
    if "://" in os.fspath(path):
        raise InputError(
            f"{path}: what is written is renamed into place, which needs a "
            "local folder; write to one and copy it"
        )
    path = pathlib.Path(path)
    _check_free(path, overwrite, marker)
    # A random name: TensorFlow Serving ignores it, a second writer cannot meet
    # it. Not tempfile.mkdtemp, whose folders only their owner may enter.
    temporary = path.parent / f".{path.name}.{uuid.uuid4().hex}.tmp"
    try:
        temporary.mkdir(parents=True)
    except OSError as error:
        raise InputError(
            f"cannot make a folder in {path.parent}: {error.strerror}"
        ) from None
    try:
        yield temporary
        _check_free(path, overwrite, marker)  # Making an export takes a while.
        _move(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _check_free(path: pathlib.Path, overwrite: bool, marker: str) -> None:
    if not os.path.lexists(path):
        return
    if not overwrite:
        raise InputError(
            f"{path} exists; choose another path, or ask to overwrite it"
        )
    if not (path / marker).is_file():
        raise InputError(
            f"{path} exists and holds no {marker}, so it is not overwritten; "
            "choose another path"
        )


def _move(source: pathlib.Path, target: pathlib.Path) -> None:
    """Renames `source`, a folder, to `target`; a folder there is replaced."""
    if not target.exists():
        os.rename(source, target)
        return
    # A folder can only be renamed to a free name: the old one steps aside.
    old = source.with_suffix(".old")
    os.rename(target, old)
    try:
        os.rename(source, target)
    except OSError:
        os.rename(old, target)
        raise
    shutil.rmtree(old)
