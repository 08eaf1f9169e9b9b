"""PyTorch weights files (`pytorch_model.bin`), read without PyTorch.

Both formats of `torch.save` are read: the zip archive (torch 1.6 and later) and
the older one, a row of pickles followed by the raw storages. No code of a file
is run; see `torch_pickle`.
"""

from __future__ import annotations

import io
import os
import pathlib
import struct
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import numpy as np

from albert_tf.errors import InputError
from albert_tf.interop.files.file_kinds import explain_bad_file, file_kind
from albert_tf.interop.files.torch_pickle import (
    BFLOAT16,
    MAX_PICKLE,
    PickleMachine,
    RefusedError,
    StoredTensor,
)

_KINDS = ("torch_zip", "torch_legacy")
_LEGACY_PROTOCOL = 1001


class TorchFile(Mapping[str, np.ndarray]):
    """The tensors of a PyTorch weights file, each read when it is asked for.

    Only names and shapes are kept in memory, and the file is not kept open.
    float16 and bfloat16 are given as float32, which holds them exactly; other
    types are given as they are. Tied weights are read under each name.

    Attributes:
      path: the file.
      left_out: what else the checkpoint holds, such as `("epoch",
        "optimizer")`; `a/b` is the entry b of the dictionary a.
    """

    def __init__(
        self,
        path: pathlib.Path,
        tensors: Mapping[str, StoredTensor],
        offsets: Mapping[str, int],
        byteorder: str,
        left_out: tuple[str, ...],
    ):
        """Keeps where everything is, as `read_torch_file` found it."""
        self.path = path
        self.left_out = left_out
        self._tensors = tensors
        self._offsets = offsets
        self._byteorder = byteorder

    def shape(self, name: str) -> tuple[int, ...]:
        """Returns the shape of a tensor without reading it."""
        return self._tensors[name].shape

    def dtype(self, name: str) -> np.dtype:
        """Returns the type in which a tensor is given, without reading it."""
        dtype = self._tensors[name].dtype
        return np.dtype("f4" if dtype in ("f2", BFLOAT16) else dtype)

    def __getitem__(self, name: str) -> np.ndarray:
        tensor = self._tensors[name]
        if not tensor.span:  # for which the file may lack a storage
            return np.empty(tensor.shape, self.dtype(name))
        stored = "u2" if tensor.dtype == BFLOAT16 else tensor.dtype
        values = np.fromfile(
            self.path,
            np.dtype(stored).newbyteorder(self._byteorder),
            count=tensor.span,
            offset=self._offsets[tensor.storage.key] + tensor.start,
        )
        if values.size != tensor.span:
            explain_bad_file(self.path, _KINDS, f"{name} is cut off")
        if tensor.dtype == BFLOAT16:
            values = (values.astype(np.uint32) << 16).view(np.float32)
        values = values.astype(self.dtype(name), copy=False)
        # A view, so that an expanded tensor takes no more than is in the file.
        strides = tuple(n * values.itemsize for n in tensor.strides)
        return np.lib.stride_tricks.as_strided(values, tensor.shape, strides)

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


def read_torch_file(path: str | os.PathLike[str]) -> TorchFile:
    """Opens a file that `torch.save` wrote, without running any of its code.

    Args:
      path: a state dict, or a dictionary with one state dict among its entries
        (`{"model": {...}, "epoch": 3}`), as a zip archive or in the old format.

    Raises:
      InputError: it is no such file; it is damaged; its pickle asks for
        anything but dense tensors of floating-point numbers, integers or
        booleans; a tensor reaches beyond its storage; there is no dictionary
        of tensors in it, or more than one.
    """
    path = pathlib.Path(path)
    kind = file_kind(path)
    if kind not in _KINDS:
        explain_bad_file(path, _KINDS)
    try:
        with path.open("rb") as file:
            if kind == "torch_zip":
                content, records, byteorder = _open_zip(file)
            else:
                content, records, byteorder = _open_legacy(file)
        tensors, left_out = _choose_tensors(content)
    except RefusedError as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"{path}: {reason}; save the tensors alone: "
            "torch.save(model.state_dict(), path)."
        ) from None
    except (
        zipfile.BadZipFile,
        struct.error,
        EOFError,
        LookupError,
        NotImplementedError,
        OSError,
        OverflowError,
        ValueError,
    ) as error:
        # The number of a stack position or memo that is not there says little.
        lookup = isinstance(error, LookupError)
        detail = "the pickle is damaged" if lookup else str(error)
        explain_bad_file(path, _KINDS, detail)
    for name, tensor in tensors.items():
        _, nbytes = records.get(tensor.storage.key, (0, 0))
        if tensor.span and tensor.stop > nbytes:
            explain_bad_file(path, _KINDS, f"{name} is cut off")
    offsets = {key: offset for key, (offset, _) in records.items()}
    return TorchFile(path, tensors, offsets, byteorder, left_out)


def _open_zip(
    file: BinaryIO,
) -> tuple[Any, dict[str, tuple[int, int]], str]:
    """Returns the object, key -> (offset, bytes), and the byte order."""
    with zipfile.ZipFile(file) as archive:
        members = {info.filename: info for info in archive.infolist()}
    pickles = [name for name in members if name.endswith("/data.pkl")]
    if len(pickles) != 1:
        raise ValueError(f"{len(pickles)} entries are named data.pkl")
    folder = pickles[0].removesuffix("data.pkl")
    if folder + "constants.pkl" in members:
        raise RefusedError("a TorchScript program, not a file of tensors")
    records = {
        name: _stored_range(file, info)
        for name, info in members.items()
        if name.startswith(folder)
    }
    byteorder = _read(file, records.get(folder + "byteorder", (0, 0)))
    if byteorder not in (b"", b"little", b"big"):
        raise ValueError("the byte order is neither little nor big")
    content = PickleMachine().run(io.BytesIO(_read(file, records[pickles[0]])))
    data = folder + "data/"
    storages = {
        name.removeprefix(data): record
        for name, record in records.items()
        if name.startswith(data)
    }
    return content, storages, ">" if byteorder == b"big" else "<"


def _stored_range(file: BinaryIO, info: zipfile.ZipInfo) -> tuple[int, int]:
    """Returns the offset and the size of an entry's data in the archive."""
    if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
        raise RefusedError(
            f"the archive was packed anew ({info.filename} is compressed)"
        )
    file.seek(info.header_offset)
    header = file.read(30)
    if len(header) < 30 or not header.startswith(b"PK\x03\x04"):
        raise ValueError(f"{info.filename} is not where the archive says")
    # The local header's extra field is not the directory's: torch pads here.
    name_size = int.from_bytes(header[26:28], "little")
    extra_size = int.from_bytes(header[28:30], "little")
    offset = info.header_offset + 30 + name_size + extra_size
    if offset + info.file_size > os.fstat(file.fileno()).st_size:
        raise ValueError(f"{info.filename} is cut off")
    return offset, info.file_size


def _read(file: BinaryIO, record: tuple[int, int]) -> bytes:
    """Reads a small entry; the CRC is not looked at, torch may not write it."""
    offset, nbytes = record
    if nbytes > MAX_PICKLE:
        raise RefusedError(f"the pickle takes {nbytes} bytes")
    file.seek(offset)
    return file.read(nbytes)


def _open_legacy(
    file: BinaryIO,
) -> tuple[Any, dict[str, tuple[int, int]], str]:
    """Returns the object, key -> (offset, bytes), and the byte order."""
    stream = io.BytesIO(file.read(MAX_PICKLE))
    machine = PickleMachine()
    machine.run(stream)  # the magic number, which told what the file is
    if (protocol := machine.run(stream)) != _LEGACY_PROTOCOL:
        raise ValueError(f"the protocol is {protocol!r}")
    machine.run(stream)  # facts about the machine that wrote the file
    content = machine.run(stream)
    keys = machine.run(stream)
    if not isinstance(keys, list):
        raise ValueError("there is no list of storages")
    size = os.fstat(file.fileno()).st_size
    position = stream.tell()
    storages = {}
    for key in keys:
        if type(key) is not str or key not in machine.itemsizes:
            raise ValueError("there is a storage that no tensor uses")
        file.seek(position)
        count = int.from_bytes(file.read(8), "little")
        nbytes = count * machine.itemsizes[key]
        storages[key] = (position + 8, nbytes)
        position += 8 + nbytes
        if position > size:
            raise ValueError(f"{size} of at least {position} bytes")
    return content, storages, "<"  # whatever the machine that wrote it


def _choose_tensors(
    content: Any,
) -> tuple[dict[str, StoredTensor], tuple[str, ...]]:
    """Returns the dictionary of tensors, and the names of what else is there.

    It is the outermost one, or the only entry of it that holds tensors.
    """
    if not isinstance(content, dict):
        raise RefusedError("there is no dictionary of tensors in it")
    prefix = ""
    outside: list[str] = []
    if not _tensors_of(content):
        states = [
            key
            for key, value in content.items()
            if isinstance(value, dict) and _tensors_of(value)
        ]
        if not states:
            raise RefusedError("there is no dictionary of tensors in it")
        if len(states) > 1:
            raise RefusedError(
                "several of its entries are dictionaries of tensors: "
                f"{', '.join(map(str, states))}"
            )
        outside = [str(key) for key in content if key != states[0]]
        prefix = f"{states[0]}/"
        content = content[states[0]]
    tensors = _tensors_of(content)
    others = {
        k: v for k, v in content.items() if not isinstance(v, StoredTensor)
    }
    for key, value in others.items():
        if _holds_tensor(value):
            raise RefusedError(
                f"tensors lie beside and within its entry {prefix}{key}"
            )
    inside = [f"{prefix}{key}" for key in others]
    return tensors, tuple(sorted(outside + inside))


def _tensors_of(entries: dict) -> dict[str, StoredTensor]:
    tensors = {k: v for k, v in entries.items() if isinstance(v, StoredTensor)}
    for key in tensors:
        if not isinstance(key, str):
            raise RefusedError(f"a tensor's name is {key!r} and not a text")
    return tensors


def _holds_tensor(value: Any) -> bool:
    """Looks into lists and dictionaries, which may contain themselves."""
    seen: set[int] = set()
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, StoredTensor):
            return True
        if isinstance(value, (dict, list, tuple)) and id(value) not in seen:
            seen.add(id(value))
            pending += value.values() if isinstance(value, dict) else value
    return False
