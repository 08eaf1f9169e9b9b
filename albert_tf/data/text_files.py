"""Text files: patterns, compression, lines and encoding."""

from __future__ import annotations

import collections
import dataclasses
import glob
import os
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

import numpy as np

from albert_tf.data.file_formats import HEAD_BYTES, check_is_text
from albert_tf.data.tfds import PREFIX, find_tfds_files, is_tfds_file
from albert_tf.errors import InputError
from albert_tf.files import (
    Path,
    PathPatterns,
    is_remote,
    real_path,
    split_patterns,
)
from albert_tf.input_files import (
    LineReader,
    check_not_web_address,
    check_regular,
    decode,
    gfile_errors,
    numbered_lines,
    open_decompressed,
)

# Longer lines and paragraphs are cut at spaces into several sentences.
MAX_LINE_BYTES = 1 << 20

BYTE_ORDER_MARK = "\ufeff"

# Rough ratio of the sizes of text and compressed text.
COMPRESSION_RATIO = 3

_COMPRESSIONS = (".gz", ".bz2", ".zst")
_BUFFER_BYTES = _BLOCK_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class TextSlice:
    """The lines of an uncompressed file that start at bytes `[start, end)`."""

    path: pathlib.Path | str
    start: int
    end: int

    def __fspath__(self) -> str:
        return os.fspath(self.path)

    def __str__(self) -> str:
        return f"{self.path} from byte {self.start:,} on"


TextPath = pathlib.Path | str  # a string is a remote path


def sample_blocks(
    files: Sequence[TextPath], max_bytes: int, seed: int
) -> list[TextPath | TextSlice]:
    """Samples about `max_bytes` of text from files, in blocks of 1 MiB.

    Compressed files and those of TensorFlow Datasets are sampled as a whole.
    Files with no more text than this are returned as they are.

    Returns:
      The files or blocks, in the order of the files.
    """
    blocks: list[TextPath | TextSlice] = []
    sizes = []
    for path in files:
        size = size_of(path)
        if is_compressed(path) or is_tfds_file(path):
            blocks.append(path)
            sizes.append(size * COMPRESSION_RATIO)
            continue
        for start in range(0, size, _BLOCK_BYTES):
            end = min(start + _BLOCK_BYTES, size)
            blocks.append(TextSlice(path, start, end))
            sizes.append(end - start)
    if sum(sizes) <= max_bytes:
        return list(files)
    order = np.random.default_rng(seed).permutation(len(blocks))
    before = np.cumsum(np.array(sizes)[order]) - np.array(sizes)[order]
    return [blocks[i] for i in sorted(order[before < max_bytes].tolist())]


def find_text_files(
    patterns: PathPatterns, data_dir: str | None = None
) -> list[TextPath]:
    """Finds the files that match glob patterns.

    Patterns are separated by commas; commas have no special meaning in a list
    of patterns. `**` matches local folders at any depth. `tfds:NAME` matches
    the files of a data set in `data_dir`; see `find_tfds_files`.

    Returns:
      The files without duplicates, in the order of the patterns and sorted
      within a pattern: paths of local files, and strings for remote files
      (`gs://...`).

    Raises:
      InputError: if there is no pattern, or a pattern matches nothing or an
        empty file.
    """
    names = list(filter(None, split_patterns(patterns)))
    if not names:
        raise InputError("input: no files given; give a path or glob pattern")
    # By real path, so that no file is read twice under two names.
    files: dict[pathlib.Path, TextPath] = {}
    for pattern in names:
        if pattern.startswith(PREFIX):
            found = find_tfds_files(pattern, data_dir)
            files |= {real_path(x): x for x in found}
            continue
        matches = _match(pattern)
        if not matches:
            raise InputError(
                f"input {pattern}: no such file; check the path or the pattern"
            )
        matches = [path for path in matches if not is_folder(path)]
        if not matches:
            raise InputError(
                f"input {pattern}: only folders match; name the files, e.g. "
                f"{os.path.join(pattern, '*')}"
            )
        for path in matches:
            is_local = not is_remote(path)
            if is_local:
                check_regular(path)
            if size_of(path) == 0:
                raise InputError(f"input {path}: the file is empty; remove it")
            file = pathlib.Path(path) if is_local else path
            files.setdefault(real_path(path), file)
    return list(files.values())


def _match(pattern: str) -> list[str]:
    if not is_remote(pattern):
        # The name of an existing file may contain wildcard characters.
        if os.path.exists(pattern):
            return [pattern]
        return sorted(glob.glob(pattern, recursive=True))
    check_not_web_address(pattern, "a path of a file that was downloaded")
    if "**" in pattern:
        raise InputError(
            f"input {pattern}: ** works for local files only; name each folder"
        )
    return _remote(pattern, lambda gfile: sorted(gfile.glob(pattern)))


def is_folder(path: str) -> bool:
    """Returns whether a local or remote path is a folder."""
    if not is_remote(path):
        return os.path.isdir(path)
    return _remote(path, lambda gfile: gfile.isdir(path))


def list_folder(path: str) -> list[str]:
    """Returns the names in a local or remote folder."""
    if not is_remote(path):
        return os.listdir(path)
    names = _remote(path, lambda gfile: gfile.listdir(path))
    return [name.rstrip("/") for name in names]  # Folders may end with one.


def size_of(path: Path) -> int:
    """Returns the size of a local or remote file, in bytes."""
    return version_of(path)[0]


def version_of(path: Path) -> tuple[int, int]:
    """Returns the size and modification time (nanoseconds) of a file.

    Raises:
      InputError: if a remote file cannot be read.
    """
    if not is_remote(path):
        status = os.stat(path)
        return status.st_size, status.st_mtime_ns
    name = os.fspath(path)
    status = _remote(name, lambda gfile: gfile.stat(name))
    return status.length, status.mtime_nsec


def _remote(path: str, call: Callable[[Any], Any]) -> Any:
    """Calls a function with `tf.io.gfile`."""
    try:
        with gfile_errors() as gfile:
            return call(gfile)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


class _SliceReader:
    """Reads the lines of a file that start within a slice of it."""

    def __init__(self, file: IO[bytes], start: int, end: int):
        self._file, self._position, self._end = file, start, end
        self._in_line = start > 0
        if self._in_line:
            # Skip the line that starts before the slice.
            self._position -= 1
            file.seek(self._position)
            while self._in_line and self._position < end:
                self.readline(_BUFFER_BYTES)
            self._in_line = False

    def readline(self, size: int) -> bytes:
        if self._position >= self._end and not self._in_line:
            return b""
        line = self._file.readline(size)
        self._position += len(line)
        self._in_line = not line.endswith(b"\n")
        return line


def is_compressed(path: Path) -> bool:
    """Returns whether the name of a file is that of a compressed file."""
    return os.fspath(path).lower().endswith(_COMPRESSIONS)


def read_lines(
    path: Path | TextSlice,
    *,
    whole: bool = False,
    encoding_errors: str = "strict",
    counts: collections.Counter[str] | None = None,
) -> Iterator[tuple[int, int, str]]:
    """Reads the lines of a UTF-8 file, in bounded memory.

    Lines are separated by line feeds only. A byte-order mark is removed. With
    `encoding_errors="replace"`, invalid UTF-8 becomes U+FFFD, whose number is
    added to `counts["invalid_utf8"]`. With `whole`, a long line is an error.

    Yields:
      The number of the line, from 1; the offset of the piece in the line, in
      bytes; and the line with its line end, or a piece of a long line.

    Raises:
      InputError: if the file cannot be read or is not a text file, or a line
        is not UTF-8 or too long. The message has the number of the line.
    """
    with open_decompressed(path) as opened:
        check_is_text(opened.read(HEAD_BYTES), path)
        opened.seek(0)
        file: LineReader = opened
        if isinstance(path, TextSlice):
            file = _SliceReader(opened, path.start, path.end)
        # A line of JSON is parsed as a whole.
        lines = (
            ((number, 0, line) for number, line in numbered_lines(file, path))
            if whole
            else split_long_lines(file)
        )
        for number, start, piece in lines:
            try:
                text = decode(piece, encoding_errors, counts)
            except UnicodeDecodeError as error:
                raise InputError(
                    f"{path}:{number}: byte {start + error.start + 1} is not "
                    "UTF-8; convert the file, e.g. with iconv, or read it with "
                    "encoding_errors=replace"
                ) from None
            if number == 1 and start == 0:
                text = text.removeprefix(BYTE_ORDER_MARK)
            yield number, start, text


def split_long_lines(file: LineReader) -> Iterator[tuple[int, int, bytes]]:
    """Reads lines and splits those longer than `MAX_LINE_BYTES` into pieces.

    A piece ends after a space or, if there is none, after a character. Blank
    pieces are skipped, as a blank line would end a document.

    Yields:
      The number of the line, the offset of the piece in it, and the piece.
    """
    number, start, rest = 1, 0, b""
    while piece := rest + file.readline(MAX_LINE_BYTES - len(rest)):
        end = len(piece)
        is_last = piece.endswith(b"\n") or end < MAX_LINE_BYTES
        if not is_last:
            end = piece.rfind(b" ") + 1 or _last_character_end(piece)
        if (start == 0 and is_last) or piece[:end].strip():
            yield number, start, piece[:end]
        rest = piece[end:]
        number, start = (number + 1, 0) if is_last else (number, start + end)


def _last_character_end(text: bytes) -> int:
    """Returns the offset at which the last whole UTF-8 character ends."""
    start = next(
        (i for i in range(1, 5) if text[-i] & 0b11000000 != 0b10000000), 1
    )
    whole = len(text[-start:].decode("utf-8", "ignore")) == 1
    return len(text) if whole else len(text) - start
