"""Path patterns, and files and folders that appear complete or not at all."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import uuid
from collections.abc import Iterator, Sequence
from typing import TextIO

from albert_tf.errors import InputError

PathPatterns = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def split_patterns(patterns: PathPatterns) -> list[str]:
    """Returns the single patterns.

    Args:
      patterns: patterns separated by commas, one path, or a list of them, whose
        commas mean themselves.
    """
    if isinstance(patterns, str):
        return [part.strip() for part in patterns.split(",")]
    if isinstance(patterns, os.PathLike):
        return [os.fspath(patterns)]
    return [os.fspath(pattern) for pattern in patterns]


_CURRENT_FOLDER = -100  # AT_FDCWD: relative paths count from there.
_EXCHANGE = 2  # RENAME_EXCHANGE


def swap_folders(
    first: str | os.PathLike[str], second: str | os.PathLike[str]
) -> bool:
    """Gives each of two folders the other's name.

    At no moment is one of the names free. Linux can do this since 3.15 on most
    local file systems; Python has no function for it.

    Args:
      first: a folder.
      second: another, on the same file system.

    Returns:
      False where the system or the file system cannot; nothing was done then.

    Raises:
      OSError: it failed, as a renaming may.
    """
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    failed = rename(
        _CURRENT_FOLDER,
        os.fsencode(first),
        _CURRENT_FOLDER,
        os.fsencode(second),
        ctypes.c_uint(_EXCHANGE),
    )
    if not failed:
        return True
    error = ctypes.get_errno()
    if error in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(error, os.strerror(error), os.fspath(first))


def local_path(path: str | os.PathLike[str]) -> pathlib.Path:
    """Returns the path of a folder to write.

    Raises:
      InputError: it is remote (`gs://...`).
    """
    if "://" in os.fspath(path):
        raise InputError(
            f"{path}: not a local folder, which is needed to rename finished "
            "files into place; write to one and copy it"
        )
    return pathlib.Path(path)


@contextlib.contextmanager
def temporary_folder(path: str | os.PathLike[str]) -> Iterator[pathlib.Path]:
    """Gives the block an empty folder beside `path`, which is removed after it.

    It is a hidden sibling of `path`, so that renaming it or its files to `path`
    is one step. A process that is killed leaves its folder, hidden and locked
    by nobody; the next one that writes to `path` removes it.

    Args:
      path: a local folder that is to be made or filled; missing parents are
        made.

    Yields:
      The temporary folder.

    Raises:
      InputError: `path` is not local, or no folder can be made beside it.
    """
    path = local_path(path)
    _remove_abandoned(path)
    temporary, lock = _make_locked(path)
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        os.close(lock)


@contextlib.contextmanager
def new_folder(
    path: str | os.PathLike[str],
    overwrite: bool = False,
    marker: str = "saved_model.pb",
) -> Iterator[pathlib.Path]:
    """Gives the block a temporary folder and renames it to `path` at the end.

    If the block fails, the `temporary_folder` is removed, and whatever was at
    `path` is still there.

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
    path = local_path(path)
    _check_free(path, overwrite, marker)
    with temporary_folder(path) as temporary:
        yield temporary
        _check_free(path, overwrite, marker)  # Making an export takes a while.
        _move(temporary, path)


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


# A file left under such a name was being written when its process died.
PARTIAL = ".partial"


def write_atomically(
    path: str | os.PathLike[str], content: str | bytes
) -> None:
    """Writes a file under a temporary name and renames it."""
    import tensorflow as tf  # Here: workers of create-data do without it.

    path = os.fspath(path)
    mode = "wb" if isinstance(content, bytes) else "w"
    with tf.io.gfile.GFile(path + PARTIAL, mode) as file:
        file.write(content)
    tf.io.gfile.rename(path + PARTIAL, path, overwrite=True)


@contextlib.contextmanager
def new_file(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    """Opens a file that appears when the block is done, and not if it fails.

    Args:
      path: a local file; its folder must exist.

    Raises:
      InputError: it cannot be written.
    """
    path = pathlib.Path(path)
    partial = path.with_name(path.name + PARTIAL)
    with _writing(path):
        file = open(partial, "w", encoding="utf-8", newline="\n")
    try:
        with file:
            yield file
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def new_output_folder(path: str | os.PathLike[str]) -> pathlib.Path:
    """Makes a folder unless it exists.

    Raises:
      InputError: it cannot be made.
    """
    path = pathlib.Path(path)
    with _writing(path):
        path.mkdir(parents=True, exist_ok=True)
    return path


@contextlib.contextmanager
def _writing(path: pathlib.Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written: {error.strerror}"
        ) from None


def read_text(path: str | os.PathLike[str]) -> str:
    """Reads a whole text file."""
    import tensorflow as tf

    with tf.io.gfile.GFile(os.fspath(path)) as file:
        return file.read()


def sha256(path: str | os.PathLike[str]) -> str:
    """Returns the hexadecimal SHA-256 of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
