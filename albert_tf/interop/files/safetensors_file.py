"""safetensors files, read and written one tensor at a time."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import safetensors

from albert_tf.errors import InputError
from albert_tf.interop.files.file_kinds import explain_bad_file, file_kind

# In the order in which the library lays tensors out (its enum, from the end).
_DTYPES = {
    "U64": "<u8",
    "I64": "<i8",
    "F64": "<f8",
    "F32": "<f4",
    "U32": "<u4",
    "I32": "<i4",
    "F16": "<f2",
    "U16": "<u2",
    "I16": "<i2",
    "I8": "|i1",
    "U8": "|u1",
    "BOOL": "|b1",
}
_CODES = {np.dtype(name): code for code, name in _DTYPES.items()}
_BFLOAT16 = "BF16"  # which NumPy does not know: read as the upper half of F32


class SafetensorsFile(Mapping[str, np.ndarray]):
    """The tensors of a safetensors file, each read when it is asked for.

    Nothing but the header is kept in memory, and the file is not kept open.
    float16 and bfloat16 are given as float32, which holds them exactly; other
    types are given as they are.

    Attributes:
      path: the file.
      metadata: its text entries, such as `{"format": "pt"}`.
    """

    def __init__(self, path: str | os.PathLike[str]):
        """Opens a file; the library checks its header against its length.

        Raises:
          InputError: it is no safetensors file, is damaged, or holds tensors
            of other types than floating-point numbers, integers and booleans.
        """
        self.path = pathlib.Path(path)
        if file_kind(self.path) != "safetensors":
            explain_bad_file(self.path, "safetensors")
        try:
            with safetensors.safe_open(self.path, framework="numpy") as file:
                self.metadata: dict[str, str] = file.metadata() or {}
            with self.path.open("rb") as file:
                header_bytes = int.from_bytes(file.read(8), "little")
                header = json.loads(file.read(header_bytes))
        except (safetensors.SafetensorError, OSError, ValueError) as error:
            explain_bad_file(self.path, "safetensors", str(error))
        header.pop("__metadata__", None)
        self._entries = {
            name: (
                entry["dtype"],
                tuple(entry["shape"]),
                8 + header_bytes + entry["data_offsets"][0],
            )
            for name, entry in sorted(header.items())
        }
        for name, (code, _, _) in self._entries.items():
            if code not in _DTYPES and code != _BFLOAT16:
                raise InputError(
                    f"{self.path}: {name} holds {code} numbers, which are not "
                    "supported; save it as F32."
                )

    def shape(self, name: str) -> tuple[int, ...]:
        """Returns the shape of a tensor without reading it."""
        return self._entries[name][1]

    def dtype(self, name: str) -> np.dtype:
        """Returns the type in which a tensor is given, without reading it."""
        code = self._entries[name][0]
        if code in (_BFLOAT16, "F16"):
            return np.dtype(np.float32)
        return np.dtype(_DTYPES[code]).newbyteorder("=")

    def __getitem__(self, name: str) -> np.ndarray:
        code, shape, offset = self._entries[name]
        values = np.fromfile(
            self.path,
            "<u2" if code == _BFLOAT16 else _DTYPES[code],
            count=math.prod(shape),
            offset=offset,
        )
        if values.size != math.prod(shape):
            explain_bad_file(self.path, "safetensors", f"{name} is cut off")
        if code == _BFLOAT16:
            values = (values.astype(np.uint32) << 16).view(np.float32)
        return values.reshape(shape).astype(self.dtype(name), copy=False)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


@dataclasses.dataclass(frozen=True)
class LazyTensor:
    """A tensor whose values are made when they are needed.

    Attributes:
      shape: the shape that `read` will give.
      dtype: the type that `read` will give.
      read: returns the values.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    read: Callable[[], np.ndarray]

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return np.asarray(self.read(), dtype=dtype)


def write_safetensors(
    path: str | os.PathLike[str],
    tensors: Mapping[str, np.ndarray | LazyTensor],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Writes a safetensors file, with one tensor at a time in memory.

    The bytes are those that `safetensors.numpy.save_file` writes (of several
    metadata entries that one leaves the order to chance). The file appears
    under its name when it is complete, in place of an older one.

    Args:
      path: the file; its folder exists.
      tensors: name -> anything that has a `shape` and a `dtype` and that
        `np.asarray` takes, which is called when the tensor's turn has come.
      metadata: text entries; Transformers wants `{"format": "pt"}`.

    Raises:
      ValueError: a type that the format lacks, a name it reserves, or values
        of another shape or type than announced. Nothing is written then.
    """
    if "__metadata__" in tensors:
        raise ValueError("tensors: the name __metadata__ is reserved")
    specs = {
        name: (_little_endian(name, tensor.dtype), tuple(tensor.shape))
        for name, tensor in tensors.items()
    }
    ranks = {dtype: rank for rank, dtype in enumerate(_CODES)}
    names = sorted(specs, key=lambda name: (ranks[specs[name][0]], name))
    path = pathlib.Path(path)
    partial = path.with_name(f".{path.name}.partial-{os.getpid()}")
    try:
        with partial.open("wb") as file:
            file.write(_header({name: specs[name] for name in names}, metadata))
            for name in names:
                dtype, shape = specs[name]
                values = np.asarray(tensors[name])
                if (_little_endian(name, values.dtype), values.shape) != (
                    dtype,
                    shape,
                ):
                    raise ValueError(
                        f"tensors[{name!r}] was announced as {dtype.name} "
                        f"{list(shape)} and is {values.dtype.name} "
                        f"{list(values.shape)}"
                    )
                values = np.ascontiguousarray(values, dtype)
                file.write(values.reshape(-1).view(np.uint8).data)
                del values  # before the next one is made
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _little_endian(name: str, dtype) -> np.dtype:
    dtype = np.dtype(dtype).newbyteorder("<")
    if dtype not in _CODES:
        raise ValueError(
            f"tensors[{name!r}] has the type {dtype.name}; the types of a "
            f"safetensors file are {', '.join(key.name for key in _CODES)}"
        )
    return dtype


def _header(
    specs: Mapping[str, tuple[np.dtype, tuple[int, ...]]],
    metadata: Mapping[str, str] | None,
) -> bytes:
    """Returns the length and the header, padded so that the data aligns."""
    entries: dict[str, object] = {}
    if metadata is not None:
        entries["__metadata__"] = dict(metadata)
    end = 0
    for name, (dtype, shape) in specs.items():
        start, end = end, end + math.prod(shape) * dtype.itemsize
        entries[name] = {
            "dtype": _CODES[dtype],
            "shape": shape,
            "data_offsets": (start, end),
        }
    header = json.dumps(entries, separators=(",", ":"), ensure_ascii=False)
    content = header.encode()
    content += b" " * (-len(content) % 8)
    return len(content).to_bytes(8, "little") + content
