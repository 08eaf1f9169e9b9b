"""Text files and data sets: patterns, compression, lines and encoding."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import glob
import itertools
import os
import pathlib
import re
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import IO, Any

import numpy as np

from albert_tf.errors import InputError, import_package
from albert_tf.files import (
    Path,
    PathPatterns,
    exists,
    is_remote,
    split_patterns,
)
from albert_tf.input_files import (
    LineReader,
    check_not_web_address,
    check_regular,
    gfile_errors,
    numbered_lines,
    open_decompressed,
)

# Longer lines and paragraphs are cut at spaces into several sentences.
MAX_LINE_BYTES = 1 << 20

# Rough ratio of the sizes of text and compressed text.
COMPRESSION_RATIO = 3

_COMPRESSIONS = (".gz", ".bz2", ".zst")
_BUFFER_BYTES = _BLOCK_BYTES = 1 << 20

# Of data sets of TensorFlow Datasets, whose files are the record files that the
# library has prepared and reads, by the `dataset_info.json` in their folder.
PREFIX = "tfds:"
_RECORD_FILE = re.compile(r"[-.]\w+-\d{5,}-of-\d{5,}$")


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

    Args:
      files: the files.
      max_bytes: files with no more text than this are returned as they are.
      seed: random seed of the choice of blocks.

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

    Args:
      patterns: patterns separated by commas, or a list of patterns, in which
        commas have no special meaning. `**` matches local folders at any depth.
        `tfds:NAME` matches the files of a data set (see `find_tfds_files`).
      data_dir: folder of these data sets.

    Returns:
      The files without duplicates, in the order of the patterns and sorted
      within a pattern: paths of local files, and strings for remote files
      (`gs://...`).

    Raises:
      InputError: If there is no pattern, or a pattern matches nothing or an
        empty file.
    """
    names = list(filter(None, split_patterns(patterns)))
    if not names:
        raise InputError("input: no files given; give a path or glob pattern")
    # By real path, so that no file is read twice under two names.
    files: dict[TextPath, TextPath] = {}
    for pattern in names:
        if pattern.startswith(PREFIX):
            files |= {x: x for x in find_tfds_files(pattern, data_dir)}
            continue
        matches = _match(pattern)
        if not matches:
            raise InputError(
                f"input {pattern}: no such file; check the path or the pattern"
            )
        matches = [path for path in matches if not _is_folder(path)]
        if not matches:
            raise InputError(
                f"input {pattern}: only folders match; name the files, e.g. "
                f"{os.path.join(pattern, '*')}"
            )
        for path in matches:
            if not is_remote(path):
                check_regular(path)
            if size_of(path) == 0:
                raise InputError(f"input {path}: the file is empty; remove it")
            is_local = not is_remote(path)
            file = pathlib.Path(path) if is_local else path
            key = os.path.realpath(path) if is_local else path
            files.setdefault(key, file)
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


def _is_folder(path: str) -> bool:
    if not is_remote(path):
        return os.path.isdir(path)
    return _remote(path, lambda gfile: gfile.isdir(path))


def size_of(path: Path) -> int:
    """Returns the size of a local or remote file, in bytes."""
    return version_of(path)[0]


def version_of(path: Path) -> tuple[int, int]:
    """Returns the size and modification time (nanoseconds) of a file.

    Raises:
      InputError: If a remote file cannot be read.
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

    Lines are separated by line feeds only. A byte-order mark is removed.

    Args:
      path: the file, or a slice of it; `.gz`, `.bz2` and `.zst` files are
        decompressed.
      whole: raise an error on long lines instead of cutting them.
      encoding_errors: "strict" to raise an error on invalid UTF-8, or "replace"
        to replace it by U+FFFD.
      counts: the number of these characters is added to its `invalid_utf8`.

    Yields:
      The number of the line, from 1; the offset of the piece in the line, in
      bytes; and the line with its line end, or a piece of a long line.

    Raises:
      InputError: If the file cannot be read, or a line is not UTF-8 or too
        long. The message has the number of the line.
    """
    with open_decompressed(path) as opened:
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
                text = text.removeprefix("\ufeff")
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


def find_tfds_files(
    name: str, data_dir: str | None = None
) -> list[pathlib.Path | str]:
    """Finds the record files of a split, in the order of its examples.

    A data set that is not in the folder is downloaded.

    Args:
      name: such as `tfds:wikipedia/20230601.simple`, or with a split other than
        "train", `tfds:imdb_reviews#unsupervised`.
      data_dir: folder of the data sets; None for the environment variable
        TFDS_DATA_DIR or the library's default.

    Raises:
      InputError: If the library is not installed, the data set cannot be
        loaded, or the split does not exist.
    """
    data_set, _, split = name.removeprefix(PREFIX).partition("#")
    split = split or "train"
    tfds = _import_tfds()
    with _explain_errors(name, "could not be loaded"):
        builder = tfds.builder(data_set, data_dir=data_dir)
        if not builder.is_prepared():
            builder.download_and_prepare()
        splits = builder.info.splits
    if split not in splits or not splits[split].num_examples:
        found = [x for x in splits if splits[x].num_examples]
        raise InputError(
            f"input {name}: the split {split!r} has no examples; choose one of "
            f"{', '.join(found) or 'none'} by {PREFIX}{data_set}#SPLIT"
        )
    return [
        path if is_remote(path) else pathlib.Path(path)
        for path in map(os.fspath, splits[split].filepaths)
    ]


def is_tfds_file(path: Path) -> bool:
    """Returns whether a file is a record file of a data set."""
    folder, name = os.path.split(os.fspath(path))
    return bool(_RECORD_FILE.search(name)) and all(
        exists(os.path.join(folder, x))
        for x in ("dataset_info.json", "features.json")
    )


def read_tfds_texts(
    path: Path,
    text_field: str,
    encoding_errors: str,
    counts: collections.Counter[str] | None,
) -> Iterator[str]:
    """Yields the texts of a record file; see `read_documents`.

    Raises:
      InputError: If the file cannot be read, or has no such field with text.
    """
    tfds = _import_tfds()
    folder, name = os.path.split(os.fspath(path))
    with _explain_errors(path, "could not be read"):
        info = _load_info(folder)
    if text_field not in info.features:
        raise InputError(
            f"{path}: has no field {text_field!r} (its fields: "
            f"{', '.join(info.features)}); choose another one with text_field"
        )
    field = info.features[text_field]
    if not isinstance(field, tfds.features.Text):
        raise InputError(
            f"{path}: the field {text_field!r} is not text, but "
            f"{type(field).__name__}; choose another one with text_field"
        )
    examples = _read_instruction(tfds, info, name, path)
    with _explain_errors(path, "could not be read"):
        builder = tfds.builder_from_directory(folder)
        if info.file_format == tfds.core.FileFormat.ARRAY_RECORD:
            rows = iter(builder.as_data_source(split=examples))
        else:
            data = builder.as_dataset(
                split=examples,
                shuffle_files=False,
                # Do not decode other fields, such as images.
                decoders=tfds.decode.PartialDecoding({text_field: True}),
                read_config=tfds.ReadConfig(try_autocache=False),
            )
            rows = iter(tfds.as_numpy(data))
    for number in itertools.count(1):
        with _explain_errors(path, "could not be read"):
            row = next(rows, None)
        if row is None:
            return
        try:
            text = decode(row[text_field], encoding_errors, counts)
        except UnicodeDecodeError as error:
            raise InputError(
                f"{path}: example {number} of the file: byte "
                f"{error.start + 1} is not UTF-8; read it with "
                "encoding_errors=replace"
            ) from None
        yield text


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


def _import_tfds() -> ModuleType:
    return import_package("tensorflow_datasets", "tfds: inputs")


@functools.lru_cache(maxsize=8)
def _load_info(folder: str) -> Any:
    return _import_tfds().builder_from_directory(folder).info


def _read_instruction(
    tfds: ModuleType, info: Any, name: str, path: Path
) -> Any:
    """Returns the `ReadInstruction` for the examples of a file."""
    for split, described in info.splits.items():
        names = [os.path.basename(x) for x in described.filepaths]
        if name in names:
            ends = list(itertools.accumulate(described.shard_lengths))
            index = names.index(name)
            start = ends[index] - described.shard_lengths[index]
            return tfds.core.ReadInstruction(
                split, from_=start, to=ends[index], unit="abs"
            )
    raise InputError(f"{path}: not listed in the folder's dataset_info.json")


@contextlib.contextmanager
def _explain_errors(path: Path, what: str) -> Iterator[None]:
    """Converts errors of the library to an `InputError` of one line."""
    try:
        yield
    except Exception as error:  # of the network, the disk or the library
        reason = (str(error).strip().splitlines() or [""])[0]
        raise InputError(
            f"input {os.fspath(path)}: {what} by TensorFlow Datasets "
            f"({type(error).__name__}: {reason[:200]}); prepare the data set "
            "where it can be downloaded, and name its folder with data_dir"
        ) from error
