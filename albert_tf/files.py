"""Path patterns, and files that appear complete or not at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import socket
import time
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, TextIO

from absl import logging

from albert_tf.errors import InputError, StorageError

Path = str | os.PathLike[str]
PathPatterns = Path | Sequence[Path]


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


def is_remote(path: Path) -> bool:
    """Returns whether a path is a URL (`gs://...`), for `tf.io.gfile`."""
    return "://" in os.fspath(path)


def check_not_web_address(path: Path, instead: str) -> None:
    """Raises an `InputError` for a web address, which is not downloaded.

    Published code names models by addresses, many of them of a hub that is no
    more.

    Args:
      path: a path, or what was given for one.
      instead: what to give, for the error.
    """
    address = urllib.parse.urlsplit(os.fspath(path))
    if address.scheme not in ("http", "https"):
        return
    problem = "web addresses are not downloaded"
    if (address.hostname or "").removeprefix("www.") == "tfhub.dev":
        problem = "tfhub.dev has moved to Kaggle"
    raise InputError(f"{os.fspath(path)}: {problem}; give {instead}")


def local_path(path: Path) -> pathlib.Path:
    """Returns the path of a folder to write.

    Raises:
      InputError: it is remote (`gs://...`).
    """
    if is_remote(path):
        raise InputError(
            f"{path}: not a local folder, which is needed to rename finished "
            "files into place; write to one and copy it"
        )
    return pathlib.Path(path)


def real_path(path: Path) -> pathlib.Path:
    """Returns the absolute path, with all links followed."""
    return pathlib.Path(os.path.realpath(path))


# Errors of a full disk, of a quota, and of a limit of file sizes.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def writing(path: Path, needed: int = 0) -> Iterator[None]:
    """Names what was written when a disk is full.

    Libraries report a full disk as errors of their own, without the path.

    Args:
      path: the file or folder that the block writes.
      needed: bytes that it will take, if they can be estimated.

    Raises:
      StorageError: in the place of any error of a full disk.
    """
    try:
        yield
    except StorageError:
        raise
    except Exception as error:
        for code in _FULL:
            if os.strerror(code) in str(error):
                raise _storage_error(path, code, needed) from error
        raise


def check_space(path: Path, needed: int) -> None:
    """Checks that a disk has room before long work.

    Args:
      path: the local file or folder that will be written.
      needed: an estimate of its bytes that is rather low.

    Raises:
      StorageError: less is free.
    """
    if needed > shutil.disk_usage(_existing_parent(path)).free:
        raise _storage_error(path, errno.ENOSPC, needed)


def _storage_error(path: Path, code: int, needed: int) -> StorageError:
    text = f"{os.fspath(path)}: {os.strerror(code)}"
    if not is_remote(path):
        free = shutil.disk_usage(_existing_parent(path)).free
        text += f" ({free / 1e6:,.1f} MB are free"
        text += f", about {needed / 1e6:,.1f} MB needed)" if needed else ")"
    return StorageError(code, f"{text}; free some, or write to another disk")


def _existing_parent(path: Path) -> pathlib.Path:
    path = real_path(path)
    return next(x for x in (path, *path.parents) if x.exists())


def exists(path: Path) -> bool:
    """Returns whether there is a file or folder."""
    if is_remote(path):
        import tensorflow as tf  # Here: only remote paths need it.

        return tf.io.gfile.exists(os.fspath(path))
    return os.path.exists(path)


def read_bytes(path: Path) -> bytes:
    """Reads a whole file."""
    with _open(path, "rb") as file:
        return file.read()


def read_text(path: Path) -> str:
    """Reads a whole text file, in UTF-8 and with its line ends."""
    return read_bytes(path).decode()


def _open(path: Path, mode: str) -> IO[bytes]:
    if is_remote(path):
        import tensorflow as tf  # Here: only remote paths need it.

        return tf.io.gfile.GFile(os.fspath(path), mode)
    return open(path, mode)


# A file left under such a name was being written when its process died.
PARTIAL = ".partial"


def write_atomically(path: Path, content: str | bytes) -> None:
    """Writes a file under a temporary name and renames it.

    Raises:
      StorageError: the disk is full; an old file is still there.
    """
    if not is_remote(path):
        write_together({path: content})
        return
    import tensorflow as tf  # Here: only remote paths need it.

    path = os.fspath(path)
    with writing(path), tf.io.gfile.GFile(path + PARTIAL, "wb") as file:
        file.write(content)
    tf.io.gfile.rename(path + PARTIAL, path, overwrite=True)


def write_together(contents: Mapping[Path, str | bytes]) -> None:
    """Writes local files that belong together; links are followed.

    A process killed in it may leave some of them missing, all but the first,
    but never a new one beside an old one.

    Args:
      contents: path -> content.

    Raises:
      StorageError: the disk is full; the old files are still there.
    """
    partials = {}
    try:
        for path, content in contents.items():
            path = real_path(path)
            partials[path] = path.with_name(path.name + PARTIAL)
            content = content.encode() if isinstance(content, str) else content
            with writing(path):
                partials[path].write_bytes(content)
        for path in list(partials)[1:]:
            path.unlink(missing_ok=True)
        for path, partial in partials.items():
            os.replace(partial, path)
    finally:
        for partial in partials.values():
            partial.unlink(missing_ok=True)


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[TextIO]:
    """Opens a file that appears when the block is done, and not if it fails.

    Args:
      path: a local file; its folder must exist.

    Raises:
      InputError: it cannot be written.
      StorageError: the disk is full.
    """
    path = pathlib.Path(path)
    partial = path.with_name(path.name + PARTIAL)
    with _writing(path):
        file = open(partial, "w", encoding="utf-8", newline="\n")
    try:
        with writing(path), file:
            yield file
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def new_output_folder(path: Path) -> pathlib.Path:
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
        with writing(path):
            yield
    except StorageError:
        raise
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written: {error.strerror}"
        ) from None


@contextlib.contextmanager
def lock_output(output: Path, file: Path) -> Iterator[None]:
    """Keeps other processes from writing the same output during the block.

    The system releases the lock when the process ends, however it ends. Over
    NFS it holds between machines if the server supports locks. There is a
    warning for a file system without locks; a bucket (`gs://...`) has none.

    Args:
      output: what is written, for error messages.
      file: the lock file, which says who holds the lock. Missing folders are
        created. At the end the file is removed, and such folders if they are
        still empty.

    Raises:
      InputError: another process holds the lock, or the file cannot be written.
      StorageError: the disk is full.
    """
    if is_remote(file):
        yield
        return
    file = pathlib.Path(file)
    created = [x for x in file.parents if not x.exists()]
    with _writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _open_locked(file, os.fspath(output))
    try:
        holder = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        }
        os.ftruncate(descriptor, 0)
        os.write(descriptor, json.dumps(holder).encode() + b"\n")
        yield
    finally:
        file.unlink(missing_ok=True)
        os.close(descriptor)
        with contextlib.suppress(OSError):  # Not empty: the block has used it.
            for folder in created:
                folder.rmdir()


def _open_locked(file: pathlib.Path, output: str) -> int:
    """Opens and locks a file; returns its descriptor."""
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise InputError(
                f"{output} is being written by {_lock_holder(file)}; wait for "
                "it to end, stop it, or use another folder"
            ) from None
        except OSError as error:
            logging.warning(
                "%s: no lock (%s), so nothing keeps a second process from "
                "writing %s",
                file,
                error.strerror,
                output,
            )
            return descriptor
        # The process that held the lock before may have removed the file.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.stat(file)):
                return descriptor
        os.close(descriptor)


def _lock_holder(file: pathlib.Path) -> str:
    for _ in range(20):
        try:
            holder = json.loads(file.read_bytes())
            return (
                f"process {holder['pid']} on {holder['host']} since "
                f"{holder['since']}"
            )
        except (OSError, ValueError, TypeError, KeyError):
            time.sleep(0.05)  # It is about to write who it is.
    return "another process"


def sha256(path: Path) -> str:
    """Returns the hexadecimal SHA-256 of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
