"""Path patterns, and atomic writing of files."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import pathlib
import shutil
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

from albert_tf.errors import InputError, StorageError
from albert_tf.locks import create_locked, holder_of, is_open_as

Path = str | os.PathLike[str]
PathPatterns = Path | Sequence[Path]

_ROOT = 0  # user id
_MAX_WAIT = 60  # seconds for another process that writes a short file

_logger = logging.getLogger(__name__)


def split_patterns(patterns: PathPatterns) -> list[str]:
    """Splits patterns into a list.

    Args:
      patterns: a string of patterns separated by commas, a path, or a list of
        patterns or paths, in which commas have no special meaning.

    Raises:
      InputError: if a pattern is empty.
    """
    if isinstance(patterns, str):
        parts = [part.strip() for part in patterns.split(",")]
        if not all(parts):
            raise InputError(f"{patterns!r} has an empty path")
        return parts
    if isinstance(patterns, os.PathLike):
        return [os.fspath(patterns)]
    return [os.fspath(pattern) for pattern in patterns]


def is_remote(path: Path) -> bool:
    """Returns whether a path is a URL (`gs://...`) for `tf.io.gfile`."""
    return "://" in os.fspath(path)


def local_path(path: Path) -> pathlib.Path:
    """Returns the path of a folder to write.

    Raises:
      InputError: if the path is empty or remote (`gs://...`).
    """
    # To pathlib, an empty path is the current folder.
    if not os.fspath(path) or "\0" in os.fspath(path):
        raise InputError(
            f"{os.fspath(path)!r} is not the path of a folder; give one, such "
            "as './model'"
        )
    if is_remote(path):
        raise InputError(
            f"{path}: not a local folder, which is required to rename finished "
            "files; write to one and copy it"
        )
    return pathlib.Path(path)


def real_path(path: Path) -> pathlib.Path:
    """Returns the absolute path, with symbolic links resolved."""
    return pathlib.Path(os.path.realpath(path))


# A full disk, an exceeded quota, an exceeded file size limit.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def writing(path: Path, needed: int = 0) -> Iterator[None]:
    """Converts errors of a full disk, to name the path that was written.

    Libraries report a full disk with various errors, without the path.

    Args:
      path: the file or folder that the block writes.
      needed: estimated size in bytes, if known.

    Raises:
      StorageError: if the disk is full.
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
    """Checks the free disk space before a long computation.

    Args:
      path: the local file or folder that will be written.
      needed: a conservative (low) estimate of its size, in bytes.

    Raises:
      StorageError: if there is less free space.
    """
    if needed > shutil.disk_usage(_existing_parent(path)).free:
        raise _storage_error(path, errno.ENOSPC, needed)


def _storage_error(path: Path, code: int, needed: int) -> StorageError:
    text = f"{os.fspath(path)}: {os.strerror(code)}"
    if not is_remote(path):
        free = shutil.disk_usage(_existing_parent(path)).free
        text += f" ({free / 1e6:,.1f} MB are free"
        text += f", about {needed / 1e6:,.1f} MB needed)" if needed else ")"
    return StorageError(
        code, f"{text}; free some and run the same command again"
    )


def _existing_parent(path: Path) -> pathlib.Path:
    path = real_path(path)
    return next(x for x in (path, *path.parents) if os.path.exists(x))


# Suffix of files that are being written; left behind by killed processes.
PARTIAL = ".partial"


def partial_path(path: Path) -> str:
    """Returns the path under which a file is written, that of a hidden file.

    A visible one might be a file of the user, such as a download.
    """
    folder, name = os.path.split(os.fspath(path))
    return os.path.join(folder, f".{name}{PARTIAL}")


def write_atomically(path: Path, content: str | bytes) -> None:
    """Writes a file under a temporary name and renames it.

    Raises:
      StorageError: if the disk is full. An existing file is left unchanged.
    """
    if not is_remote(path):
        write_together({path: content})
        return
    import tensorflow as tf  # Only remote paths need it.

    partial = partial_path(path)
    with writing(path), tf.io.gfile.GFile(partial, "wb") as file:
        file.write(content)
    tf.io.gfile.rename(partial, os.fspath(path), overwrite=True)


def write_together(contents: Mapping[Path, str | bytes]) -> None:
    """Atomically writes local files that belong together; see `new_file`.

    A process that is killed meanwhile may leave some files missing, except for
    the first, but never a mixture of new and old files.

    Args:
      contents: the content of each file, by path.

    Raises:
      StorageError: if the disk is full. Existing files are left unchanged.
    """
    with contextlib.ExitStack() as stack:
        written = []
        for path, content in contents.items():
            content = content.encode() if isinstance(content, str) else content
            if _is_special(path):
                with creating(path):
                    pathlib.Path(path).write_bytes(content)
                continue
            path = output_path(path)
            with creating(path):
                file = stack.enter_context(_partial(path, "wb", wait=True))
                file.write(content)
                file.flush()
            written.append(path)
        with creating(written[0] if written else ""):
            for path in written[1:]:
                path.unlink(missing_ok=True)
            for path in written:
                os.replace(partial_path(path), path)


def output_path(path: Path) -> pathlib.Path:
    """Returns the absolute path of an output, with symbolic links resolved.

    Raises:
      InputError: if a link in a folder that everyone can write to is another
        user's: it may lead to any file.
    """
    absolute = pathlib.Path(os.path.abspath(path))
    for link in (absolute, *absolute.parents):
        if (
            os.path.islink(link)
            and os.stat(link.parent).st_mode & stat.S_IWOTH
            and os.lstat(link).st_uid not in (os.geteuid(), _ROOT)
        ):
            raise InputError(
                f"{path}: {link} is another user's link in a folder that "
                "everyone can write to; name the file itself, or choose "
                "another path"
            )
    return real_path(path)


@contextlib.contextmanager
def _partial(
    path: pathlib.Path, mode: str, wait: bool = False, **options: Any
) -> Iterator[Any]:
    """Opens and locks an empty temporary file beside `path`.

    It has the permissions of `path`, if that exists. It is removed at the end
    unless the block renames it to `path`.

    Args:
      path: the file to be written.
      mode: mode for `open`.
      wait: whether to wait for another process that holds the lock, which is
        reported after a second, and given up after a minute.
      **options: further arguments of `open`.

    Raises:
      InputError: if another process holds the lock.
    """
    partial = partial_path(path)

    def opener(*_: Any) -> int:
        return _create_locked(partial, path, _MAX_WAIT if wait else 0)

    with writing(path), open(partial, mode, opener=opener, **options) as file:
        try:
            with contextlib.suppress(FileNotFoundError):
                permissions = stat.S_IMODE(os.stat(path).st_mode)
                os.fchmod(file.fileno(), permissions)
            yield file
        finally:
            if is_open_as(file.fileno(), partial):
                os.unlink(partial)


def _create_locked(partial: str, path: Path, seconds: float) -> int:
    """Returns the descriptor of `create_locked`, possibly after waiting."""
    started, reported = time.monotonic(), False
    while True:
        try:
            return create_locked(partial)[0]
        except BlockingIOError:
            holder = f"{path} is being written by {holder_of(partial)}"
        waited = time.monotonic() - started
        if waited >= seconds:
            raise InputError(
                f"{holder}; wait for it to end, or choose another path"
            )
        if waited > 1 and not reported:
            _logger.warning("%s; waiting for it", holder)
            reported = True
        time.sleep(0.01)


@contextlib.contextmanager
def new_file(path: Path, *, binary: bool = False) -> Iterator[Any]:
    """Opens a file that appears only if the block succeeds.

    If `path` is a symbolic link, its target is replaced. Anything but a regular
    file, such as a pipe or /dev/stdout, is written directly.

    Args:
      path: a local file, in an existing folder.
      binary: whether bytes are written, not text.

    Raises:
      InputError: if the file cannot be written, or if another process is
        writing it.
      StorageError: if the disk is full.
    """
    options: dict[str, Any] = {"mode": "wb"}
    if not binary:
        options = {"mode": "w", "encoding": "utf-8", "newline": "\n"}
    if _is_special(path):
        with creating(path):
            special: IO[Any] = open(path, **options)
        with writing(path), special:
            yield special
        return
    path = output_path(path)
    if os.path.isdir(path):  # Before the work for the block.
        raise InputError(f"{path}: cannot be written: Is a directory")
    with contextlib.ExitStack() as stack:
        with creating(path):
            file = stack.enter_context(_partial(path, **options))
        with writing(path):
            yield file
            file.flush()
        with creating(path):
            os.replace(partial_path(path), path)


def _is_special(path: Path) -> bool:
    """Returns whether a path is a device, a pipe, or an open file."""
    if os.path.abspath(path).startswith(("/dev/fd/", "/dev/std", "/proc/")):
        return True  # Possibly a regular file that is open for appending.
    if not os.path.exists(path):
        return False
    return not (os.path.isfile(path) or os.path.isdir(path))


def check_not_input(
    output: Path,
    inputs: Iterable[Path],
) -> None:
    """Checks that writing an output does not overwrite an input.

    Args:
      output: a file or folder to write, which may exist.
      inputs: files and folders to read. Those that do not exist, such as names
        of models on a hub, are ignored.

    Raises:
      InputError: if the output is an input (possibly by another path or a
        link), a folder that contains an input, or a file in an input folder.
    """
    if not os.path.exists(output) or _is_special(output):
        return
    for path in inputs:
        if os.path.exists(path) and _overlap(output, path):
            raise InputError(
                f"output {os.fspath(output)}: writing it would destroy the "
                f"input {os.fspath(path)}; choose another path"
            )


def _overlap(output: Path, path: Path) -> bool:
    """Returns whether an existing output is, contains or is in an input."""
    if os.path.samefile(output, path):
        return True
    if os.path.isdir(output):
        return real_path(output) in real_path(path).parents
    if not os.path.isdir(path):
        return False
    # By inode, as one of the files may be a hard link.
    return any(
        os.path.samefile(output, os.path.join(folder, name))
        for folder, _, names in os.walk(path)
        for name in names
        if os.path.exists(os.path.join(folder, name))
    )


@contextlib.contextmanager
def output_folder(path: Path) -> Iterator[pathlib.Path]:
    """Creates a folder, and those above it, if they do not exist.

    Those that are still empty after the block are removed again.

    Raises:
      InputError: if the folder cannot be created.
    """
    path = pathlib.Path(path)
    # `Path.exists` raises an error below a folder that may not be entered.
    created = [x for x in (path, *path.parents) if not os.path.exists(x)]
    try:
        with creating(path):
            path.mkdir(parents=True, exist_ok=True)
        yield path
    finally:
        with contextlib.suppress(OSError):  # Not empty.
            for folder in created:
                folder.rmdir()


@contextlib.contextmanager
def creating(path: Path) -> Iterator[None]:
    """Converts system errors of a block that writes to an `InputError`."""
    try:
        with writing(path):
            yield
    except StorageError:
        raise
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written: {error.strerror}"
        ) from None
