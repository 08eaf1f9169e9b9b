"""Path patterns, and files that appear complete or not at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import pathlib
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any, TextIO

from albert_tf.errors import InputError, StorageError

Path = str | os.PathLike[str]
PathPatterns = Path | Sequence[Path]


def split_patterns(patterns: PathPatterns) -> list[str]:
    """Returns the single patterns.

    Args:
      patterns: patterns separated by commas, one path, or a list of them, whose
        commas mean themselves.

    Raises:
      InputError: there is nothing before or after a comma.
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
    """Returns whether a path is a URL (`gs://...`), for `tf.io.gfile`."""
    return "://" in os.fspath(path)


def local_path(path: Path) -> pathlib.Path:
    """Returns the path of a folder to write.

    Raises:
      InputError: it is empty, or remote (`gs://...`).
    """
    # pathlib would take an empty path for the current folder.
    if not os.fspath(path) or "\0" in os.fspath(path):
        raise InputError(
            f"{os.fspath(path)!r} is not the path of a folder; give one, such "
            "as './model'"
        )
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
    return StorageError(
        code, f"{text}; free some and run the same command again"
    )


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
    with open_bytes(path) as file:
        return file.read()


def read_text(path: Path) -> str:
    """Reads a whole text file, in UTF-8 and with its line ends.

    Raises:
      InputError: the file is not UTF-8.
    """
    try:
        return read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: byte {error.start + 1} of the file is not UTF-8"
        ) from None


def open_bytes(path: Path) -> IO[bytes]:
    """Opens a local or remote file to read its bytes."""
    if is_remote(path):
        import tensorflow as tf  # Here: only remote paths need it.

        return tf.io.gfile.GFile(os.fspath(path), "rb")
    return open(path, "rb")


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
    """Writes local files that belong together, in the way of `new_file`.

    A process killed in it may leave some of them missing, all but the first,
    but never a new one beside an old one.

    Args:
      contents: path -> content.

    Raises:
      StorageError: the disk is full; the old files are still there.
    """
    with contextlib.ExitStack() as stack:
        written = []
        for path, content in contents.items():
            content = content.encode() if isinstance(content, str) else content
            if _is_special(path):
                pathlib.Path(path).write_bytes(content)
                continue
            path = real_path(path)
            with writing(path):
                file = stack.enter_context(_partial(path, "ab", wait=True))
                file.write(content)
                file.flush()
            written.append(path)
        for path in written[1:]:
            path.unlink(missing_ok=True)
        for path in written:
            os.replace(_partial_path(path), path)


def _partial_path(path: pathlib.Path) -> pathlib.Path:
    return path.with_name(path.name + PARTIAL)


@contextlib.contextmanager
def _partial(
    path: pathlib.Path, mode: str, wait: bool = False, **options: Any
) -> Iterator[Any]:
    """Opens an empty file beside `path`, which one process at a time has.

    The block renames it to `path`; otherwise it is removed.

    Args:
      path: the file that it is to become.
      mode: that of `open`, to append.
      wait: whether to wait for another process that has it.
      **options: of `open`.

    Raises:
      InputError: another process has it.
    """
    partial = _partial_path(path)
    while True:
        file = open(partial, mode, **options)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            file.close()
            raise InputError(
                f"{path} is being written by another process; wait for it to "
                "end, or choose another path"
            ) from None
        except OSError:  # A file system without locks.
            break
        # The process that had it may have renamed or removed it.
        if _is_same(file, partial):
            break
        file.close()
    with writing(path), file:
        file.truncate(0)  # What a process that was killed has left.
        try:
            yield file
        finally:
            if _is_same(file, partial):
                partial.unlink()


def _is_same(file: IO[Any], path: pathlib.Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[TextIO]:
    """Opens a file that appears when the block is done, and not if it fails.

    A symbolic link is followed: what it names is replaced, not the link. What
    is no regular file, such as a pipe or /dev/stdout, is written directly.

    Args:
      path: a local file; its folder must exist.

    Raises:
      InputError: it cannot be written, or another process writes it.
      StorageError: the disk is full.
    """
    options = {"encoding": "utf-8", "newline": "\n"}
    if _is_special(path):
        with creating(path):
            file = open(path, "w", **options)
        with writing(path), file:
            yield file
        return
    path = real_path(path)
    with contextlib.ExitStack() as stack:
        with creating(path):
            file = stack.enter_context(_partial(path, "a", **options))
            if path.exists():
                shutil.copymode(path, _partial_path(path))
        with writing(path):
            yield file
            file.flush()
        with creating(path):
            os.replace(_partial_path(path), path)


def _is_special(path: Path) -> bool:
    """Returns whether a path names a device, a pipe, or an open file."""
    if os.path.abspath(path).startswith(("/dev/fd/", "/dev/std", "/proc/")):
        return True  # Perhaps a regular file that others append to.
    if not os.path.exists(path):
        return False
    return not (os.path.isfile(path) or os.path.isdir(path))


def check_not_input(
    output: Path,
    inputs: Iterable[Path],
) -> None:
    """Checks that writing an output does not destroy what is read.

    Args:
      output: a file or folder to write, which may exist.
      inputs: files and folders that are read; those that do not exist, such as
        names on a hub, are ignored.

    Raises:
      InputError: the output is an input, by whatever path or link; or it is a
        folder that contains one; or a file in one.
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
    # By inode: one of the files may be a hard link.
    return any(
        os.path.samefile(output, os.path.join(folder, name))
        for folder, _, names in os.walk(path)
        for name in names
        if os.path.exists(os.path.join(folder, name))
    )


def new_output_folder(path: Path) -> pathlib.Path:
    """Makes a folder unless it exists.

    Raises:
      InputError: it cannot be made.
    """
    path = pathlib.Path(path)
    with creating(path):
        path.mkdir(parents=True, exist_ok=True)
    return path


@contextlib.contextmanager
def creating(path: Path) -> Iterator[None]:
    """Turns errors of the system, of a block that writes, into our own."""
    try:
        with writing(path):
            yield
    except StorageError:
        raise
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written: {error.strerror}"
        ) from None


def sha256(path: Path) -> str:
    """Returns the hexadecimal SHA-256 of a local or remote file."""
    digest = hashlib.sha256()
    with open_bytes(path) as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
