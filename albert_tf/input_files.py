"""Safe reading of input files, including all JSON files."""

from __future__ import annotations

import bz2
import collections
import contextlib
import errno
import gzip
import hashlib
import io
import json
import os
import re
import stat
import sys
import urllib.parse
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any, Protocol

from albert_tf.errors import InputError, ReadError
from albert_tf.files import Path, is_remote
from albert_tf.optional_packages import import_package

# Far more than any config, weight index, vocabulary or graph needs.
MAX_BYTES = 64 << 20
_MAX_DEPTH = 64
_BUFFER = 1 << 20
# An unterminated string extends to the end, which avoids quadratic time.
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def exists(path: Path) -> bool:
    """Returns whether a file or folder exists."""
    if is_remote(path):
        import tensorflow as tf  # Only remote paths need it.

        return tf.io.gfile.exists(os.fspath(path))
    return os.path.exists(path)


def check_regular(path: Path) -> None:
    """Checks that a path that a library opens is not a pipe, device or socket.

    Reading from these may never end; see also `open_input`.

    Raises:
      InputError: if the path exists and is neither a file nor a folder.
    """
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return  # Opening the file reports the error.
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise _not_regular(os.fspath(path))


def check_not_web_address(path: Path, instead: str) -> None:
    """Checks that a path is not a web address, which is not downloaded.

    Published code often refers to models by web addresses, many of them of
    tfhub.dev, which has moved.

    Args:
      path: the path to check.
      instead: what to give instead, for the error message.

    Raises:
      InputError: if the path is a web address.
    """
    address = urllib.parse.urlsplit(os.fspath(path))
    if address.scheme not in ("http", "https"):
        return
    problem = "web addresses are not downloaded"
    if (address.hostname or "").removeprefix("www.") == "tfhub.dev":
        problem = "tfhub.dev has moved to Kaggle"
    raise InputError(f"{os.fspath(path)}: {problem}; give {instead}")


def open_input(path: Path, source: str = "") -> IO[bytes]:
    """Opens a local or remote regular file to read bytes.

    Args:
      path: the file.
      source: name of the file in error messages. Defaults to the path.

    Raises:
      InputError: if the file cannot be opened, or is not regular: opening a
        pipe or reading a device may never end.
    """
    source = source or os.fspath(path)
    try:
        if is_remote(path):
            return io.BufferedReader(_RemoteFile(os.fspath(path)), _BUFFER)
        # Without waiting for a pipe's other end.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except (OSError, ValueError) as error:  # ValueError: a null byte
        if getattr(error, "errno", None) == errno.ENXIO:  # a socket
            raise _not_regular(source) from None
        reason = getattr(error, "strerror", None) or error
        raise ReadError(f"{source}: cannot be read: {reason}") from None
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb", _BUFFER)
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise InputError(
            f"{source}: cannot be read: {os.strerror(errno.EISDIR)}"
        )
    raise _not_regular(source)


@contextlib.contextmanager
def open_decompressed(path: Path) -> Iterator[IO[bytes]]:
    """Opens a file for reading, and names it in the errors of the block.

    `.gz`, `.bz2` and `.zst` files are decompressed.

    Raises:
      InputError: see `open_input`; also if reading fails in the block.
    """
    suffix = os.path.splitext(os.fspath(path))[1].lower()
    stream_errors: list[type[Exception]] = [EOFError, zlib.error]
    openers: dict[str, Callable[[Any], Any]] = {
        ".gz": gzip.open,
        ".bz2": bz2.open,
    }
    if suffix == ".zst":
        library = "compression" if sys.version_info >= (3, 14) else "backports"
        zstd = import_package(f"{library}.zstd", ".zst files")
        openers[suffix] = zstd.open
        stream_errors.append(zstd.ZstdError)
    try:
        with contextlib.ExitStack() as stack:
            file: Any = stack.enter_context(open_input(path))
            if suffix in openers:
                file = stack.enter_context(openers[suffix](file))
            yield file
    except tuple(stream_errors) as error:
        raise InputError(
            f"{path}: the {suffix[1:]} stream is damaged ({error}); get the "
            "file again"
        ) from None
    except OSError as error:
        reason = error.strerror or error
        raise ReadError(f"{path}: cannot be read: {reason}") from None


def _not_regular(source: str) -> InputError:
    return InputError(
        f"{source}: a pipe, device or socket; give a regular file"
    )


@contextlib.contextmanager
def gfile_errors() -> Iterator[Any]:
    """Provides `tf.io.gfile` and converts its errors to `OSError`."""
    import tensorflow as tf  # Only remote paths need it.

    try:
        yield tf.io.gfile
    except tf.errors.OpError as error:
        message = " ".join(error.message.split())
        raise OSError(error.error_code, message) from None


class _RemoteFile(io.RawIOBase):
    """A remote file that `io.BufferedReader` can read."""

    def __init__(self, path: str):
        with gfile_errors() as gfile:
            self._file = gfile.GFile(path, "rb")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with gfile_errors():
            content = self._file.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        with gfile_errors():
            self._file.seek(offset, whence)
            return self._file.tell()

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


class LineReader(Protocol):
    """A binary file, or a part of one, that is read line by line."""

    def readline(self, size: int, /) -> bytes:
        """Returns at most `size` bytes of the next line; b"" at the end."""
        ...


def decode(
    text: bytes, errors: str, counts: collections.Counter[str] | None
) -> str:
    """Decodes UTF-8, and counts the U+FFFD that "replace" adds.

    Raises:
      UnicodeDecodeError: with "strict", if it is not UTF-8.
    """
    decoded = text.decode(errors=errors)
    if counts is not None and errors == "replace":
        added = decoded.count("\ufffd") - text.count("\ufffd".encode())
        counts["invalid_utf8"] += added
    return decoded


def numbered_lines(
    file: LineReader, source: Path
) -> Iterator[tuple[int, bytes]]:
    """Yields the number of each line, from 1, and the line.

    Raises:
      InputError: if a line is longer than `MAX_BYTES`.
    """
    lines = iter(lambda: file.readline(MAX_BYTES + 1), b"")
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_BYTES:
            raise InputError(
                f"{os.fspath(source)}:{number}: longer than {MAX_BYTES >> 20} "
                "MiB, the maximum for a line; give another file"
            )
        yield number, line


def read_bytes(path: Path, source: str = "", limit: int = MAX_BYTES) -> bytes:
    """Reads a whole local or remote file.

    Args:
      path: the file.
      source: name of the file in error messages. Defaults to the path.
      limit: maximum size, in bytes.

    Raises:
      InputError: if the file cannot be read, is not regular, or is too large.
    """
    source = source or os.fspath(path)
    try:
        with open_input(path, source) as file:
            # Files of /proc may have nothing to read yet.
            content = file.read(limit + 1) or b""
    except OSError as error:
        raise InputError(
            f"{source}: cannot be read: {error.strerror}"
        ) from None
    if len(content) > limit:
        raise InputError(
            f"{source}: larger than {limit >> 20} MiB, the maximum for such a "
            "file; give another file"
        )
    return content


def read_text(path: Path, source: str = "", limit: int = MAX_BYTES) -> str:
    """Reads a whole text file in UTF-8, without converting newlines.

    Raises:
      InputError: if the file is not UTF-8; see also `read_bytes`.
    """
    source = source or os.fspath(path)
    try:
        return read_bytes(path, source, limit).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{source}: byte {error.start + 1} of the file is not UTF-8"
        ) from None


def sha256(path: Path) -> str:
    """Returns the hexadecimal SHA-256 of a local or remote file."""
    digest = hashlib.sha256()
    with open_input(path) as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def parse_json(text: str | bytes, source: str) -> Any:
    """Parses JSON of bounded depth.

    Args:
      text: the JSON.
      source: name of the file in error messages.

    Raises:
      InputError: if the text is not JSON in UTF-8, is nested too deeply, or has
        a string with a lone surrogate.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8-sig")
        if _is_too_deep(text):
            raise InputError(
                f"{source}: nested deeper than {_MAX_DEPTH} levels"
            )
        values = json.loads(text)
        if _SURROGATE.search(text):
            json.dumps(values, ensure_ascii=False).encode()
    except InputError:
        raise
    except UnicodeEncodeError:
        raise InputError(
            f"{source}: a string has half of a surrogate pair; expected "
            "Unicode text"
        ) from None
    except ValueError as error:
        raise InputError(f"{source} is not JSON: {error}") from None
    return values


def parse_object(text: str | bytes, source: str) -> dict[str, Any]:
    """Parses a JSON object; see `parse_json`."""
    values = parse_json(text, source)
    if not isinstance(values, dict):
        raise InputError(f"{source}: expected a JSON object")
    return values


def read_json(path: Path, source: str = "") -> dict[str, Any]:
    """Reads a JSON object from a file.

    Args:
      path: a local or remote file.
      source: name of the file in error messages. Defaults to the path.

    Raises:
      InputError: if the file cannot be read or parsed (see `read_bytes` and
        `parse_json`), or if it is not an object.
    """
    source = source or os.fspath(path)
    return parse_object(read_bytes(path, source), source)


def _is_too_deep(text: str) -> bool:
    if text.count("[") + text.count("{") <= _MAX_DEPTH:
        return False
    depth = 0
    for bracket in re.findall(r"[\[\]{}]", _STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        if depth > _MAX_DEPTH:
            return True
    return False
