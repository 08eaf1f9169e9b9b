"""A folder that appears finished or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import re
import shutil
import uuid
from collections.abc import Iterator

from albert_tf.errors import InputError
from albert_tf.swap_folders import swap_folders


@contextlib.contextmanager
def new_folder(
    path: str | os.PathLike[str],
    overwrite: bool = False,
    marker: str = "saved_model.pb",
) -> Iterator[pathlib.Path]:
    """Gives the block a temporary folder and renames it to `path` at the end.

    The temporary folder is a hidden sibling of `path`, so that the renaming is
    one step. If the block fails the folder is removed, and whatever was at
    `path` is still there. A process that is killed leaves its folder, hidden
    and locked by nobody; the next one that writes to `path` removes it.

    An old folder at `path` is replaced in one step, too, where `swap_folders`
    can do that. Elsewhere there is a moment between two renamings, and who is
    killed in it leaves the old folder as `.<name>.<random>.old`.

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
    _remove_abandoned(path)
    temporary, lock = _make_locked(path)
    try:
        yield temporary
        _check_free(path, overwrite, marker)  # Making an export takes a while.
        _move(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        os.close(lock)


def _make_locked(path: pathlib.Path) -> tuple[pathlib.Path, int]:
    """Makes the temporary folder; returns it and the descriptor of its lock."""
    while True:
        # A random name: TensorFlow Serving ignores it, a second writer cannot
        # meet it. Not tempfile.mkdtemp, whose folders only their owner enters.
        temporary = path.parent / f".{path.name}.{uuid.uuid4().hex}.tmp"
        try:
            temporary.mkdir(parents=True)
        except OSError as error:
            raise InputError(
                f"cannot make a folder in {path.parent}: {error.strerror}"
            ) from None
        lock = os.open(temporary, os.O_RDONLY)
        # File systems without such locks: see `_remove_abandoned`.
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        # Another process may have got the lock first and removed the folder.
        if temporary.exists():
            return temporary, lock
        os.close(lock)


def _remove_abandoned(path: pathlib.Path) -> None:
    """Removes temporary folders of `path` whose process was killed.

    A lock tells, not the age or the number of a process: the system gives it
    up when its process ends, however that happens, and containers and (on most
    shared file systems) machines respect each other's. Where there are no
    locks of folders, as on NFS, nothing is removed.
    """
    name = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{32}}\.tmp")
    try:
        found = [x for x in path.parent.iterdir() if name.fullmatch(x.name)]
    except OSError:
        return  # No such folder yet, or none to be listed.
    for folder in found:
        with contextlib.suppress(OSError):
            lock = os.open(folder, os.O_RDONLY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


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
    if swap_folders(source, target):
        return  # The old one has the temporary name, and goes with it.
    # A folder can only be renamed to a free name: the old one steps aside.
    old = source.with_suffix(".old")
    os.rename(target, old)
    try:
        os.rename(source, target)
    except OSError:
        os.rename(old, target)
        raise
    shutil.rmtree(old)
