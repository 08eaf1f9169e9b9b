"""Path patterns, and files that appear complete or not at all."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import pathlib
import shutil
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, TextIO

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
    partials = {}
    try:
        for path, content in contents.items():
            content = content.encode() if isinstance(content, str) else content
            if _is_special(path):
                pathlib.Path(path).write_bytes(content)
                continue
            path = real_path(path)
            partials[path] = path.with_name(path.name + PARTIAL)
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

    A symbolic link is followed: what it names is replaced, not the link. What
    is no regular file, such as a pipe or /dev/stdout, is written directly.

    Args:
      path: a local file; its folder must exist.

    Raises:
      InputError: it cannot be written.
      StorageError: the disk is full.
    """
    direct = _is_special(path)
    path = pathlib.Path(path) if direct else real_path(path)
    written = path if direct else path.with_name(path.name + PARTIAL)
    with creating(path):
        file = open(written, "w", encoding="utf-8", newline="\n")
        if not direct and path.exists():
            shutil.copymode(path, written)
    try:
        with writing(path), file:
            yield file
        if not direct:
            with creating(path):
                os.replace(written, path)
    finally:
        if not direct:
            written.unlink(missing_ok=True)


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
        parents = pathlib.Path(path).resolve().parents
        return pathlib.Path(output).resolve() in parents
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
