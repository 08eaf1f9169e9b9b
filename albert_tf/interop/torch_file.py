"""PyTorch weights files (`pytorch_model.bin`), read without PyTorch.

Both formats of `torch.save` are supported: the zip archive of torch 1.6 and
later, and the legacy format, a sequence of pickles followed by raw storages.
"""

from __future__ import annotations

import io
import os
import pathlib
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np

from albert_tf.errors import InputError
from albert_tf.input_files import shown
from albert_tf.interop.file_types import (
    TensorFile,
    check_size,
    explain_bad_file,
    file_kind,
    open_zip,
)
from albert_tf.interop.torch_pickle import (
    BFLOAT16,
    MAX_PICKLE,
    StoredTensor,
    UnsupportedError,
    unpickle,
)

_KINDS = ("torch_zip", "torch_legacy")
_LEGACY_PROTOCOL = 1001
_CHUNK = 1 << 20


class _Range(NamedTuple):
    """A range of bytes in the file; `crc` is its CRC-32, or 0 if unknown."""

    offset: int
    nbytes: int
    crc: int = 0


class _Records(NamedTuple):
    """The parsed file.

    Attributes:
      content: the unpickled object.
      storages: storage key -> its bytes in the file.
      byteorder: byte order of the numbers, `<` or `>`.
    """

    content: Any
    storages: Mapping[str, _Range]
    byteorder: Literal["<", ">"]


def open_torch_file(path: str | os.PathLike[str]) -> TensorFile:
    """Opens a file written by `torch.save`; arrays are read on access.

    float16 and bfloat16 are read as float32, without loss. Tied weights are
    read under each of their names.

    Args:
      path: a file with a state dict, or with a dictionary that has one state
        dict among its values (`{"model": {...}, "epoch": 3}`).

    Raises:
      InputError: if it is not such a file or is damaged; if its pickle contains
        anything but dense tensors of numbers or booleans; or if it does not
        contain exactly one dictionary of tensors.
    """
    path = pathlib.Path(path)
    kind = file_kind(path)
    if kind not in _KINDS:
        explain_bad_file(path, _KINDS)
    try:
        with path.open("rb") as file:
            is_zip = kind == "torch_zip"
            records = _open_zip(file) if is_zip else _open_legacy(file)
        tensors = _state_dict(records.content)
    except UnsupportedError as error:
        raise InputError(
            f"{path}: {error}; save the tensors alone with "
            "torch.save(model.state_dict(), path)."
        ) from None
    # A damaged pickle or archive may raise anything.
    except Exception as error:
        explain_bad_file(path, _KINDS, str(error))
    for name, tensor in tensors.items():
        stored = records.storages.get(tensor.storage.key, _Range(0, 0))
        if tensor.span and tensor.stop > stored.nbytes:
            explain_bad_file(path, _KINDS, f"{name} is truncated")
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    check_size(shapes, path.stat().st_size, str(path))
    verified: set[str] = set()  # keys of storages

    def read(name: str) -> np.ndarray:
        key = tensors[name].storage.key
        if key in records.storages and key not in verified:
            if not _matches_crc(path, records.storages[key]):
                explain_bad_file(
                    path, _KINDS, f"{name} differs from its checksum"
                )
            verified.add(key)
        return _read_tensor(path, records, name, tensors[name])

    return TensorFile(shapes, read, str(path))


def _matches_crc(path: pathlib.Path, stored: _Range) -> bool:
    """Returns whether a range of the file matches its checksum, if any."""
    if not stored.crc:
        return True
    crc, left = 0, stored.nbytes
    with path.open("rb") as file:
        file.seek(stored.offset)
        while left and (chunk := file.read(min(left, _CHUNK))):
            crc, left = zlib.crc32(chunk, crc), left - len(chunk)
    return not left and crc == stored.crc


def _read_tensor(
    path: pathlib.Path, records: _Records, name: str, tensor: StoredTensor
) -> np.ndarray:
    span, code = tensor.span, tensor.dtype
    is_bfloat16 = code == BFLOAT16
    dtype = np.dtype("f4" if is_bfloat16 or code == "f2" else code)
    if not span:  # An empty tensor may have no storage.
        return np.empty(tensor.shape, dtype)
    values = np.fromfile(
        path,
        np.dtype("u2" if is_bfloat16 else code).newbyteorder(records.byteorder),
        count=span,
        offset=records.storages[tensor.storage.key].offset + tensor.start,
    )
    # The strides below reach item `span - 1` and no further.
    if values.size != span:
        explain_bad_file(path, _KINDS, f"{name} is truncated")
    if is_bfloat16:
        values = (values.astype(np.uint32) << 16).view(np.float32)
    values = values.astype(dtype, copy=False)
    # A view: an expanded tensor takes no more memory than its storage.
    strides = tuple(n * values.itemsize for n in tensor.strides)
    return np.lib.stride_tricks.as_strided(values, tensor.shape, strides)


def _open_zip(file: BinaryIO) -> _Records:
    with open_zip(file) as archive:
        members = {info.filename: info for info in archive.infolist()}
    pickles = [name for name in members if name.endswith("/data.pkl")]
    if len(pickles) != 1:
        raise ValueError(f"{len(pickles)} entries are named data.pkl")
    folder = pickles[0].removesuffix("data.pkl")
    if folder + "constants.pkl" in members:
        raise UnsupportedError("a TorchScript program, not a file of tensors")
    ranges = {
        name: _stored_range(file, info)
        for name, info in members.items()
        if name.startswith(folder)
    }
    byteorder = _read(file, ranges.get(folder + "byteorder", _Range(0, 0)))
    if byteorder not in (b"", b"little", b"big"):
        raise ValueError("the byte order is neither little nor big")
    content, _ = unpickle(io.BytesIO(_read(file, ranges[pickles[0]])))
    data = folder + "data/"
    storages = {
        name.removeprefix(data): stored
        for name, stored in ranges.items()
        if name.startswith(data)
    }
    return _Records(content, storages, ">" if byteorder == b"big" else "<")


def _stored_range(file: BinaryIO, info: zipfile.ZipInfo) -> _Range:
    """Locates the data of an archive's entry."""
    if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
        raise UnsupportedError(
            f"the archive was repacked ({info.filename} is compressed)"
        )
    file.seek(info.header_offset)
    header = file.read(30)
    if len(header) < 30 or not header.startswith(b"PK\x03\x04"):
        raise ValueError(f"{info.filename} has no header")
    # torch pads the local header's extra field, unlike the directory's.
    name_size = int.from_bytes(header[26:28], "little")
    extra_size = int.from_bytes(header[28:30], "little")
    offset = info.header_offset + 30 + name_size + extra_size
    if offset + info.file_size > os.fstat(file.fileno()).st_size:
        raise ValueError(f"{info.filename} is truncated")
    # The CRC is 0 if torch was told not to compute checksums.
    return _Range(offset, info.file_size, info.CRC)


def _read(file: BinaryIO, stored: _Range) -> bytes:
    if stored.nbytes > MAX_PICKLE:
        raise UnsupportedError(f"its pickle takes {stored.nbytes} bytes")
    file.seek(stored.offset)
    content = file.read(stored.nbytes)
    if stored.crc and zlib.crc32(content) != stored.crc:
        raise ValueError("an entry differs from its checksum")
    return content


def _open_legacy(file: BinaryIO) -> _Records:
    stream = io.BytesIO(file.read(MAX_PICKLE))
    unpickle(stream)  # the magic number
    protocol, _ = unpickle(stream)
    if type(protocol) is not int or protocol != _LEGACY_PROTOCOL:
        raise ValueError(f"the protocol is not {_LEGACY_PROTOCOL}")
    unpickle(stream)  # properties of the machine that wrote the file
    content, unpickler = unpickle(stream)
    keys, _ = unpickle(stream)
    if type(keys) is not list:
        raise ValueError("there is no list of storages")
    size = os.fstat(file.fileno()).st_size
    position = stream.tell()
    storages = {}
    for key in keys:
        if type(key) is not str or key not in unpickler.itemsizes:
            raise ValueError("there is a storage that no tensor uses")
        file.seek(position)
        count = int.from_bytes(file.read(8), "little")
        nbytes = count * unpickler.itemsizes[key]
        storages[key] = _Range(position + 8, nbytes)
        position += 8 + nbytes
        if position > size:
            raise ValueError(f"{size} of at least {position} bytes")
    return _Records(content, storages, "<")  # on every machine


def _state_dict(content: Any) -> dict[str, StoredTensor]:
    """Returns the dictionary of tensors: the object or one of its values."""
    if not isinstance(content, dict):
        raise UnsupportedError("it has no dictionary of tensors")
    if not _tensors_of(content):
        # Search each dictionary once, even if it has a thousand keys.
        inner = {id(x): x for x in content.values() if isinstance(x, dict)}
        found = {key for key, value in inner.items() if _has_tensors(value)}
        states = {k: v for k, v in content.items() if id(v) in found}
        if not states:
            raise UnsupportedError("it has no dictionary of tensors")
        if len(states) > 1:
            names = ", ".join(str(key)[:80] for key in [*states][:4])
            raise UnsupportedError(
                f"it has several dictionaries of tensors: {names}"
            )
        (content,) = states.values()
    seen: set[int] = set()  # shared by all values, which may overlap
    for key, value in content.items():
        if not isinstance(value, StoredTensor) and _has_nested_tensor(
            value, seen
        ):
            raise UnsupportedError(
                f"its entry {str(key)[:80]} contains nested tensors"
            )
    return _tensors_of(content)


def _has_tensors(entries: dict) -> bool:
    return any(isinstance(value, StoredTensor) for value in entries.values())


def _tensors_of(entries: dict) -> dict[str, StoredTensor]:
    tensors = {k: v for k, v in entries.items() if isinstance(v, StoredTensor)}
    for key in tensors:
        if not isinstance(key, str):
            raise UnsupportedError(
                f"the name of a tensor is {shown(key)}, expected a string"
            )
    return tensors


def _has_nested_tensor(value: Any, seen: set[int]) -> bool:
    """Searches lists and dictionaries, which may be cyclic."""
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, StoredTensor):
            return True
        if isinstance(value, (dict, list, tuple)) and id(value) not in seen:
            seen.add(id(value))
            pending += value.values() if isinstance(value, dict) else value
    return False
