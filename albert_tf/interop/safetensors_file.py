"""safetensors files, with checksums if this library wrote them."""

from __future__ import annotations

import json
import os
import pathlib
import zlib
from collections.abc import Mapping

import ml_dtypes  # noqa: F401  (registers bfloat16 with NumPy)
import numpy as np
import safetensors
import safetensors.numpy

from albert_tf.errors import InputError
from albert_tf.input_files import parse_object
from albert_tf.interop.file_types import (
    TensorFile,
    check_kind,
    explain_bad_file,
    reading,
)

# Metadata key of the CRC-32 of each tensor's bytes, as JSON; the format itself
# has no checksums.
_CHECKSUMS = "albert_tf_crc32"
_DTYPES = "F64 F32 F16 BF16 I64 I32 I16 I8 U64 U32 U16 U8 BOOL".split()
_MAX_HEADER = 16 << 20
_KIND = "safetensors"
_DAMAGES = (safetensors.SafetensorError, OSError, ValueError)


def open_safetensors(path: str | os.PathLike[str]) -> TensorFile:
    """Opens a safetensors file; arrays are read on access.

    Checksums, if any, are verified then.
    """
    path = os.fspath(path)
    check_kind(path, (_KIND,))
    with reading(path, (_KIND,), _DAMAGES):
        with open(path, "rb") as file:
            header_bytes = int.from_bytes(file.read(8), "little")
        if header_bytes > _MAX_HEADER:
            raise InputError(
                f"{path}: its header takes {header_bytes:,} bytes; expected at "
                f"most {_MAX_HEADER:,}"
            )
        with safetensors.safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_slice(name) for name in file.keys()}
            shapes = {k: tuple(v.get_shape()) for k, v in tensors.items()}
            dtypes = {k: v.get_dtype() for k, v in tensors.items()}
    for name, dtype in dtypes.items():
        if dtype not in _DTYPES:
            raise InputError(
                f"{path}: {name} holds {dtype} numbers, which are not "
                "supported; save it as F32"
            )
    checksums = None
    if _CHECKSUMS in metadata:
        checksums = parse_object(metadata[_CHECKSUMS], f"{path}: {_CHECKSUMS}")

    def read(name: str) -> np.ndarray:
        with (
            reading(path, (_KIND,), _DAMAGES),
            safetensors.safe_open(path, framework="numpy") as file,
        ):
            array = file.get_tensor(name)
        if checksums is not None and checksums.get(name) != _crc32(array):
            explain_bad_file(path, _KIND, f"{name} differs from its checksum")
        if array.dtype.name in ("bfloat16", "float16"):
            return array.astype(np.float32)  # lossless
        return array

    return TensorFile(shapes, read, path, _KIND)


def save_safetensors(
    tensors: Mapping[str, np.ndarray],
    path: str | os.PathLike[str],
    metadata: Mapping[str, str],
) -> None:
    """Writes a safetensors file with checksums in its metadata."""
    # The library ignores strides.
    arrays = {k: np.ascontiguousarray(v) for k, v in tensors.items()}
    checksums = {name: _crc32(array) for name, array in arrays.items()}
    # The library makes files that only their owner may read.
    path = pathlib.Path(path)
    path.touch()
    permissions = path.stat().st_mode
    safetensors.numpy.save_file(
        arrays, path, {**metadata, _CHECKSUMS: json.dumps(checksums)}
    )
    path.chmod(permissions)
    _sort_metadata(path)


def _sort_metadata(path: str | os.PathLike[str]) -> None:
    """Sorts the metadata, so that equal models make equal files.

    The library writes it in random order.
    """
    with open(path, "r+b") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False)
        file.seek(8)
        file.write(text.encode().ljust(size))


def _crc32(array: np.ndarray) -> str:
    return f"{zlib.crc32(np.ascontiguousarray(array).view(np.uint8).data):08x}"
