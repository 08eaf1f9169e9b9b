"""Tells what a file is by its content, and says what is wrong with it."""

from __future__ import annotations

import json
import os
import pathlib
import re
import struct
import tarfile
import zipfile
import zlib
from typing import NoReturn

from albert_tf.errors import InputError

# Kind -> what a message calls such a file.
_NOUNS = {
    "safetensors": "a safetensors file",
    "torch_zip": "a PyTorch weights file",
    "torch_legacy": "a PyTorch weights file",
    "hdf5": "an HDF5 weights file",
    "tf_index": "the index of a TensorFlow checkpoint",
    "tf_meta": "the graph of a TensorFlow 1 checkpoint (.meta)",
    "saved_model_pb": "the graph of a SavedModel (saved_model.pb)",
    "sentencepiece": "a SentencePiece model",
    "tar": "a tar archive",
    "tar_gz": "a tar.gz archive",
    "gzip": "a gzip file",
    "zip": "a zip archive",
    "pickle": "a Python pickle",
    "json": "JSON",
    "html": "an HTML page",
    "xml": "XML",
    "git_lfs": "a Git LFS pointer",
    "text": "a text",
    "empty": "an empty file",
    "folder": "a folder",
    "missing": "missing",
    "unknown": "of an unknown kind",
}
KINDS = frozenset(_NOUNS)

# Kind -> what to do where another kind was expected.
_ADVICE = {
    "git_lfs": "fetch the file it stands for with `git lfs pull`",
    "html": "the download went wrong: check the address, or log in",
    "xml": "the download went wrong: check the address, or log in",
    "empty": "copy or download it again",
    "json": "give the weights, not their configuration",
    "tf_index": "give the checkpoint's prefix, the path without .index",
    "tf_meta": "give the checkpoint's prefix, the path without .meta",
    "saved_model_pb": "give the folder that it lies in",
    "sentencepiece": "give the weights, not the vocabulary",
}

_HEAD = 4096
_MAX_SAFETENSORS_HEADER = 100_000_000  # the library's own limit
# The pickle of 0x1950a86a20f9469cfc6c, framed from protocol 4 on.
_TORCH_LEGACY = re.compile(
    rb"\x80[\x02-\x05](\x95.{8})?\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19\.", re.DOTALL
)
_LEVELDB_MAGIC = struct.pack("<Q", 0xDB4775248B80FB57)
_VARINT = rb"[\x80-\xff]*[\x00-\x7f]"
# MetaGraphDef.meta_info_def.stripped_op_list.op.name
_TF_META = re.compile(
    rb"\n" + _VARINT + rb"\x12" + _VARINT + rb"\n" + _VARINT + rb"\n.[A-Za-z_]",
    re.DOTALL,
)
# SavedModel.saved_model_schema_version = 1, .meta_graphs.meta_info_def
_SAVED_MODEL = re.compile(rb"\x08\x01\x12" + _VARINT + rb"\n")
# ModelProto.pieces.piece, then the score of the first piece.
_SENTENCEPIECE = re.compile(rb"\n[\x08-\x7f]\n([\x01-\x7f])", re.DOTALL)
_JSON = re.compile(rb'[{\[]\s*["{\[\]}0-9tfn-]')
_HTML = (b"<!doctype html", b"<html", b"<head", b"<body", b"<!--")


def file_kind(path: str | os.PathLike[str]) -> str:
    """Returns what a file is, by its content and not by its name.

    Args:
      path: any path.

    Returns:
      One of `KINDS`, such as "safetensors", "torch_zip", "torch_legacy",
      "hdf5", "tf_index" or "tar_gz"; "missing", "folder" and "empty" for what
      has no content; "unknown". A damaged file keeps its kind as long as its
      first bytes (a `tf_index`: its last) are intact.

    Raises:
      InputError: the file is there, but cannot be read.
    """
    path = pathlib.Path(path)
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
            f"{path}: cannot be read: {error.strerror}; check its permissions."
        ) from error
    if not head:
        return "empty"
    return _binary_kind(path, head, tail) or _text_kind(head) or "unknown"


def explain_bad_file(
    path: str | os.PathLike[str],
    expected: str | tuple[str, ...],
    detail: str = "",
) -> NoReturn:
    """Raises the error that says why a file is not what was expected.

    Args:
      path: the file that could not be used.
      expected: the kind, or kinds, that could have been used there.
      detail: what a reader found wrong, in a few words without a full stop;
        it is told where the file is of an expected kind, but damaged.

    Raises:
      InputError: always; one line with the path, what is there, what was
        expected and what to do.
    """
    expected = (expected,) if isinstance(expected, str) else tuple(expected)
    *others, last = dict.fromkeys(_NOUNS[kind] for kind in expected)
    wanted = f"{', '.join(others)} or {last}" if others else last
    path = pathlib.Path(path)
    kind = file_kind(path)
    if kind == "missing":
        raise InputError(f"{path}: no such file; give the path of {wanted}.")
    if kind in expected:
        reason = _missing_bytes(path, kind) or " ".join(detail.split())
        raise InputError(
            f"{path}: {_NOUNS[kind]} that is damaged or incomplete"
            f"{f' ({reason})' if reason else ''}; copy or download it again."
        )
    what, advice = _NOUNS[kind], _ADVICE.get(kind, f"give {wanted}")
    if kind in ("json", "text") and (message := _error_message(path, kind)):
        what, advice = f'the message "{message}"', _ADVICE["html"]
    elif kind == "unknown" and re.search(r"\.data-\d+-of-\d+$", path.name):
        what = "a data file of a TensorFlow checkpoint"
        advice = "give the checkpoint's prefix, the path without .data-..."
    raise InputError(f"{path}: {what}, not {wanted}; {advice}.")


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
    if re.match(rb"\x80[\x02-\x05]", head):
        return "pickle"
    if _SAVED_MODEL.match(head):
        return "saved_model_pb"
    piece = _SENTENCEPIECE.match(head)
    if piece and head[4 + piece[1][0] :].startswith(b"\x15"):
        return "sentencepiece"
    if _TF_META.match(head):
        return "tf_meta"
    return None


def _text_kind(head: bytes) -> str | None:
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"version https://git-lfs"):
        return "git_lfs"
    if start.startswith(b"<"):
        return "html" if start.lower().startswith(_HTML) else "xml"
    if _JSON.match(start):
        return "json"
    # The last character may be cut in two.
    text = head.decode("utf-8", errors="ignore")
    is_text = len(text.encode()) > len(head) - 4 and not re.search(
        r"[\x00-\x08\x0e-\x1f\x7f]", text
    )
    return "text" if is_text else None


def _has_torch_pickle(path: pathlib.Path, head: bytes) -> bool:
    """Tells torch's zip files from others, also where the end is cut off."""
    first = head[30 : 30 + int.from_bytes(head[26:28], "little")]
    if first.endswith(b"/data.pkl"):
        return True
    try:
        with zipfile.ZipFile(path) as archive:
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
    try:  # which verifies the checksum of the first member's header
        tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def _missing_bytes(path: pathlib.Path, kind: str) -> str:
    """Says how much of a file is there, where its head tells its length."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(48).ljust(48, b"\0")
        promised = 0
        if kind == "hdf5":  # the end of file address of the superblock
            promised = _uint64(head, 40 if head[8] < 2 else 28)
        elif kind == "safetensors":
            promised = _uint64(head, 0) + 8
            file.seek(8)
            try:
                header = json.loads(file.read(promised - 8))
                promised += max(
                    entry["data_offsets"][1]
                    for name, entry in header.items()
                    if name != "__metadata__"
                )
            except (ValueError, TypeError, KeyError, IndexError, RecursionError,
                    AttributeError):  # fmt: skip
                pass  # the header itself is cut off, or garbage
    if promised > size:
        return f"{size} of {promised} bytes"
    return ""


def _uint64(data: bytes, offset: int) -> int:
    return int.from_bytes(data[offset : offset + 8], "little")


def _error_message(path: pathlib.Path, kind: str) -> str:
    """Returns what a server answered instead of a file, or ""."""
    if path.stat().st_size > _HEAD:
        return ""
    text = path.read_text(encoding="utf-8-sig")
    if kind == "json":
        try:
            answer = json.loads(text)
        except ValueError:
            return ""
        keys = ("error", "message", "detail", "msg")
        text = next(
            (
                answer[key]
                for key in keys
                if isinstance(answer, dict) and isinstance(answer.get(key), str)
            ),
            "",
        )
    return " ".join(text.split()).replace('"', "'")[:80]
