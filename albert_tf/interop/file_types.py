"""File types, detected from the content, and the errors about them."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import pathlib
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import BinaryIO, NoReturn

import numpy as np

from albert_tf.errors import InputError
from albert_tf.input_files import check_regular, open_input


@dataclasses.dataclass(frozen=True)
class TensorFile:
    """The tensors of an open file.

    Attributes:
      shapes: tensor name -> shape.
      read: reads the array of a tensor name.
      source: the file's name in error messages.
      kind: one of `KINDS`.
    """

    shapes: Mapping[str, tuple[int, ...]]
    read: Callable[[str], np.ndarray]
    source: str
    kind: str = "unknown"

    def select(self, names: Mapping[str, str]) -> TensorFile:
        """Returns some of the tensors under new names: new name -> name."""
        shapes = {new: self.shapes[name] for new, name in names.items()}
        return dataclasses.replace(
            self, shapes=shapes, read=lambda new: self.read(names[new])
        )

    @classmethod
    def join(cls, files: Iterable[TensorFile], source: str) -> TensorFile:
        """Returns the tensors of several files, all different, as one."""
        owners: dict[str, TensorFile] = {}
        for file in files:
            for name in file.shapes:
                if name in owners:
                    raise InputError(f"{source}: {name} is in two files")
                owners[name] = file
        return cls(
            {name: file.shapes[name] for name, file in owners.items()},
            lambda name: owners[name].read(name),
            source,
            next((file.kind for file in owners.values()), "unknown"),
        )


# Largest ratio of a model's size in float32 to its file's: float16 doubles in
# size, and tied tensors count twice. Small files may exceed it.
_MAX_GROWTH = 4
_FREE_BYTES = 1 << 20


def check_tf_path(path: str | os.PathLike[str]) -> None:
    """Raises an `InputError` if TensorFlow takes a path for a pattern."""
    found = sorted({*os.fspath(path)} & {*"*?[\\"})
    if found:
        raise InputError(
            f"{os.fspath(path)}: TensorFlow cannot read checkpoints below a "
            f"folder whose name has {' or '.join(found)}; choose another name"
        )


def check_size(
    shapes: Mapping[str, tuple[int, ...]], file_bytes: int, source: str
) -> None:
    """Rejects shapes that would take much more memory than the file.

    `file_bytes` is the size of the file, or of all files together.
    """
    sizes = {name: 4 * math.prod(shape) for name, shape in shapes.items()}
    total = sum(sizes.values())
    if total > _MAX_GROWTH * file_bytes + _FREE_BYTES:
        largest = max(sizes, key=sizes.__getitem__)
        raise InputError(
            f"{source}: its tensors take {total:,} bytes, such as {largest} of "
            f"shape {list(shapes[largest])}, but the file has {file_bytes:,}; "
            "it is damaged or malicious"
        )


# Kind -> a noun for error messages.
_NOUNS = {
    "safetensors": "a safetensors file",
    "torch_zip": "a PyTorch weights file",
    "torch_legacy": "a PyTorch weights file",
    "hdf5": "an HDF5 weights file",
    "tf_index": "the index of a TensorFlow checkpoint",
    "tar": "a tar archive",
    "tar_gz": "a tar.gz archive",
    "gzip": "a gzip file",
    "zip": "a zip archive",
    "html": "an HTML or XML page",
    "git_lfs": "a Git LFS pointer",
    "text": "a text file",
    "empty": "an empty file",
    "folder": "a folder",
    "missing": "missing",
    "unknown": "of an unknown kind",
}
KINDS = frozenset(_NOUNS)

# Kind -> what to do if another kind was expected.
_ADVICE = {
    "git_lfs": "fetch the actual file with `git lfs pull`",
    "html": "the download went wrong: check the address, or log in",
    "empty": "copy or download it again",
    "tf_index": "give the checkpoint's prefix, the path without .index",
    "hdf5": (
        "HDF5 files are read in KerasHub's presets only: load those of "
        "save_weights with load_weights, and save a tf_model.h5 of "
        "transformers as safetensors"
    ),
    "zip": (
        "unpack it and give its folder, or load a .keras file with "
        "keras.saving.load_model and save the model with save_pretrained"
    ),
}

_HEAD = 4096
_ZIP_END = 66_000  # bytes of a zip archive's end, with the longest comment
_MAX_ZIP_DIRECTORY = 4 << 20
_MAX_SAFETENSORS_HEADER = 100_000_000  # the library's own limit
# The pickle of 0x1950a86a20f9469cfc6c, framed from protocol 4 on.
_TORCH_LEGACY = re.compile(
    rb"\x80[\x02-\x05](\x95.{8})?\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19\.", re.DOTALL
)
_LEVELDB_MAGIC = (0xDB4775248B80FB57).to_bytes(8, "little")


def file_kind(path: str | os.PathLike[str]) -> str:
    """Detects the type of a file, which need not exist, from its content.

    A damaged file is recognized as long as its first bytes (for `tf_index`, its
    last bytes) are intact. Returns one of `KINDS`.

    Raises:
      InputError: if the file cannot be read, or is a pipe, device or socket.
    """
    path = pathlib.Path(path)
    check_regular(path)
    try:
        if not path.exists():
            return "missing"
        if path.is_dir():
            return "folder"
        with path.open("rb") as file:
            head = file.read(_HEAD)
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - len(_LEVELDB_MAGIC)))
            tail = file.read(len(_LEVELDB_MAGIC))
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror}; check its permissions"
        ) from error
    if not head:
        return "empty"
    return _binary_kind(path, head, tail) or _text_kind(head) or "unknown"


def check_kind(path: str | os.PathLike[str], expected: tuple[str, ...]) -> str:
    """Returns the kind of a file, which must be one of those expected."""
    kind = file_kind(path)
    if kind not in expected:
        explain_bad_file(path, expected)
    return kind


@contextlib.contextmanager
def reading(
    path: str | os.PathLike[str],
    expected: tuple[str, ...],
    damages: tuple[type[Exception], ...],
    detail: str = "",
) -> Iterator[None]:
    """Converts errors of a library that reads a file; see `explain_bad_file`.

    `damages` are what the library raises for a damaged file, and `detail` is
    what is read, for the message.
    """
    try:
        yield
    except InputError:
        raise
    except damages as error:
        reason = str(error).splitlines() or [type(error).__name__]
        explain_bad_file(path, expected, detail + reason[0][:200])


def explain_bad_file(
    path: str | os.PathLike[str],
    expected: str | tuple[str, ...],
    detail: str = "",
) -> NoReturn:
    """Raises an `InputError` for a file that could not be read.

    The message says what the file is, what was expected and what to do. It has
    the reader's message, `detail`, if the file is of an expected kind.
    """
    expected = (expected,) if isinstance(expected, str) else tuple(expected)
    *others, last = dict.fromkeys(_NOUNS[kind] for kind in expected)
    wanted = f"{', '.join(others)} or {last}" if others else last
    path = pathlib.Path(path)
    kind = file_kind(path)
    if kind == "missing":
        raise InputError(f"{path}: no such file; give the path of {wanted}")
    if kind in expected:
        reason = " ".join(detail.split())
        raise InputError(
            f"{path}: {_NOUNS[kind]} that is damaged or incomplete"
            f"{f' ({reason})' if reason else ''}; copy or download it again"
        )
    what, advice = _NOUNS[kind], _ADVICE.get(kind, f"give {wanted}")
    if kind == "text":  # such as a server's error message
        with open_input(path) as file:
            start = file.read(_HEAD).decode("utf-8", errors="ignore")
        what += f', "{" ".join(start.split())[:80]}"'
    raise InputError(f"{path}: {what}, not {wanted}; {advice}")


def _binary_kind(path: pathlib.Path, head: bytes, tail: bytes) -> str | None:
    if head.startswith(b"\x89HDF\r\n\x1a\n"):
        return "hdf5"
    if head.startswith(b"PK\x03\x04"):
        return "torch_zip" if _has_torch_pickle(path, head) else "zip"
    if head.startswith(b"\x1f\x8b"):
        return "tar_gz" if _is_tar(_gunzip(head)) else "gzip"
    if _TORCH_LEGACY.match(head):
        return "torch_legacy"
    if tail == _LEVELDB_MAGIC:
        return "tf_index"
    if _is_tar(head):
        return "tar"
    header_bytes = int.from_bytes(head[:8], "little")
    if head[8:9] == b"{" and header_bytes <= _MAX_SAFETENSORS_HEADER:
        return "safetensors"
    return None


def _text_kind(head: bytes) -> str | None:
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"version https://git-lfs"):
        return "git_lfs"
    if start.startswith(b"<"):
        return "html"
    # The last character may be incomplete.
    text = head.decode("utf-8", errors="ignore")
    is_text = len(text.encode()) > len(head) - 4 and not re.search(
        r"[\x00-\x08\x0e-\x1f\x7f]", text
    )
    return "text" if is_text else None


def open_zip(file: BinaryIO) -> zipfile.ZipFile:
    """Opens a zip archive after checking the size of its central directory.

    `zipfile` allocates ten times its size. A damaged archive is a
    `zipfile.BadZipFile`, too.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _ZIP_END))
    end = file.read()
    # The end-of-directory records, which have the directory's size.
    record, record_64 = end.rfind(b"PK\5\6"), end.rfind(b"PK\6\6")
    directory = int.from_bytes(end[record + 12 : record + 16], "little")
    if record_64 >= 0:
        if directory == 0xFFFFFFFF:
            directory = 0
        directory = max(
            directory,
            int.from_bytes(end[record_64 + 40 : record_64 + 48], "little"),
        )
    if record >= 0 and directory > _MAX_ZIP_DIRECTORY:
        raise zipfile.BadZipFile(f"its directory takes {directory:,} bytes")
    file.seek(0)
    return zipfile.ZipFile(file)


def _has_torch_pickle(path: pathlib.Path, head: bytes) -> bool:
    """Detects torch's zip files, even truncated ones."""
    first = head[30 : 30 + int.from_bytes(head[26:28], "little")]
    if first.endswith(b"/data.pkl"):
        return True
    try:
        with path.open("rb") as file, open_zip(file) as archive:
            return any(n.endswith("/data.pkl") for n in archive.namelist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return False


def _gunzip(head: bytes) -> bytes:
    try:
        return zlib.decompressobj(wbits=31).decompress(head, tarfile.BLOCKSIZE)
    except zlib.error:
        return b""


def _is_tar(head: bytes) -> bool:
    block = head[: tarfile.BLOCKSIZE]
    try:  # Verifies the checksum of the first member's header.
        tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True
