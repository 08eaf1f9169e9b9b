"""PyTorch weights files (`pytorch_model.bin`), read by PyTorch.

PyTorch is imported only for them. `torch.load(weights_only=True)` reads both
formats of `torch.save` without executing code of their pickles: the zip archive
of torch 1.6 and later, and the legacy format. A small pickle could still take
memory or time without end, so limits are checked before.
"""

from __future__ import annotations

import io
import os
import pathlib
import pickle
import pickletools
import re
import warnings
import zipfile
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from albert_tf.errors import InputError, shown
from albert_tf.interop.file_types import (
    TensorFile,
    check_kind,
    check_size,
    open_zip,
    reading,
)

if TYPE_CHECKING:
    import torch

_KINDS = ("torch_zip", "torch_legacy")
_DTYPES = (
    "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 uint16 "
    "uint32 uint64 bool"
).split()
_CHUNK = 1 << 20
_MAX_PICKLE = 1 << 22  # bytes; an ALBERT needs less than a hundredth
_ZIP_RECORDS = 56 + 20 + 22  # bytes
_MAX_STEPS = 500_000  # opcodes
# Opcode -> which of its operands it hashes; PyTorch allows no others that do.
_HASHED_OPERANDS = {"SETITEM": slice(1, 2), "SETITEMS": slice(1, None, 2)}
_TUPLES = ("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3")
_MARK = object()


class _UnsupportedError(Exception):
    """Raised for file contents that a state dict does not need."""


def open_torch_file(path: str | os.PathLike[str]) -> TensorFile:
    """Opens a file written by `torch.save`; zip archives are mapped to memory.

    float16 and bfloat16 are read as float32, without loss. Tied weights are
    read under each of their names. The file must hold a state dict, or a
    dictionary that has one among its values (`{"model": {...}, "epoch": 3}`),
    with nothing but dense tensors of numbers or booleans.
    """
    path = pathlib.Path(path)
    kind = check_kind(path, _KINDS)
    # A damaged pickle or archive may raise anything.
    with reading(path, _KINDS, (Exception,)):
        try:
            tensors = _state_dict(_load(path, is_zip=kind == "torch_zip"))
            for name, tensor in tensors.items():
                _check_plain(name, tensor)
        except _UnsupportedError as error:
            raise InputError(
                f"{path}: {error}; save the tensors alone with "
                "torch.save(model.state_dict(), path)"
            ) from None
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    check_size(shapes, path.stat().st_size, str(path))

    def read(name: str) -> np.ndarray:
        tensor = tensors[name].detach()
        if tensor.is_floating_point() and tensor.element_size() == 2:
            tensor = tensor.float()
        return tensor.numpy()

    return TensorFile(shapes, read, str(path), kind)


def _load(path: pathlib.Path, *, is_zip: bool) -> Any:
    """Returns the object in a file."""
    try:
        import torch
    except ImportError:
        raise InputError(
            f"{path}: PyTorch, which reads this format, is not installed; "
            "`pip install torch`, or give the model as safetensors"
        ) from None
    if is_zip:
        _check_archive(path)
    else:
        with path.open("rb") as file:
            stream = io.BytesIO(file.read(_MAX_PICKLE))
        for _ in range(5):  # number, protocol, system, object, storage keys
            _check_limits(stream)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as of pickle protocols
            return torch.load(
                path, map_location="cpu", weights_only=True, mmap=is_zip
            )
    except pickle.UnpicklingError as error:
        found = re.search(r"GLOBAL ([\w.]+)", str(error))
        what = f"asks for {found[1][:80]}" if found else "has operations"
        raise _UnsupportedError(
            f"its pickle {what}, which dense tensors of numbers do not need "
            "(no code was executed)"
        ) from None


def _check_archive(path: pathlib.Path) -> None:
    """Checks what PyTorch does not if it maps a file to memory."""
    with path.open("rb") as file, open_zip(file) as archive:
        if archive.start_dir != _directory_offset(file):
            raise _UnsupportedError("it has two tables of contents")
        # PyTorch finds names in any case.
        names = [info.filename.lower() for info in archive.infolist()]
        if sum(name.endswith("/data.pkl") for name in names) != 1:
            raise _UnsupportedError("it does not have one data.pkl")
        for info, name in zip(archive.infolist(), names, strict=True):
            if name.endswith("/constants.pkl"):
                raise _UnsupportedError(
                    "a TorchScript program, not a file of tensors"
                )
            if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
                raise _UnsupportedError(
                    f"the archive was repacked ({name} is compressed)"
                )
            if name.endswith("/data.pkl"):
                if info.file_size > _MAX_PICKLE:
                    raise _UnsupportedError(
                        f"its pickle takes {info.file_size} bytes"
                    )
                _check_limits(io.BytesIO(archive.read(info)))
            if info.CRC:  # 0 if torch was told not to compute checksums.
                with archive.open(info) as entry:
                    while entry.read(_CHUNK):
                        pass


def _directory_offset(file: BinaryIO) -> int:
    """Returns where PyTorch looks for a zip archive's table of contents.

    Python looks before the record at the end, PyTorch where that record says.
    The records must be where PyTorch writes them.
    """
    # The end record, and before it those of large files: locator and record.
    file.seek(-min(_ZIP_RECORDS, file.seek(0, os.SEEK_END)), os.SEEK_END)
    start, tail = file.tell(), file.read()
    record, locator, large = tail[-22:], tail[-42:-22], tail[:-42]
    if record[:4] != b"PK\5\6" or record[-2:] != b"\0\0":
        raise _UnsupportedError("bytes follow the archive")
    if locator[:4] != b"PK\6\7":
        return int.from_bytes(record[16:20], "little")
    if (
        large[:4] != b"PK\6\6"
        or int.from_bytes(locator[8:16], "little") != start
    ):
        raise _UnsupportedError("the end of the archive is damaged")
    return int.from_bytes(large[48:56], "little")


def _check_plain(name: str, tensor: torch.Tensor) -> None:
    """Rejects tensors that are not stored as plain numbers."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in _DTYPES or str(tensor.layout) != "torch.strided":
        raise _UnsupportedError(f"{name} is {dtype}, {tensor.layout}")
    if tensor.device.type != "cpu" or tensor.is_neg() or tensor.is_conj():
        raise _UnsupportedError(f"{name} is not stored as plain numbers")


def _state_dict(content: Any) -> dict[str, torch.Tensor]:
    """Returns the dictionary of tensors: the object or one of its values."""
    if not isinstance(content, dict):
        raise _UnsupportedError("it has no dictionary of tensors")
    if not _tensors_of(content):
        # Search each dictionary once, even if it has a thousand keys.
        inner = {id(x): x for x in content.values() if isinstance(x, dict)}
        found = {
            key
            for key, value in inner.items()
            if any(map(_is_tensor, value.values()))
        }
        states = {k: v for k, v in content.items() if id(v) in found}
        if not states:
            raise _UnsupportedError("it has no dictionary of tensors")
        if len(states) > 1:
            names = ", ".join(str(key)[:80] for key in [*states][:4])
            raise _UnsupportedError(
                f"it has several dictionaries of tensors: {names}"
            )
        (content,) = states.values()
    seen: set[int] = set()  # shared by all values, which may overlap
    for key, value in content.items():
        if not _is_tensor(value) and _has_nested_tensor(value, seen):
            raise _UnsupportedError(
                f"its entry {str(key)[:80]} contains nested tensors"
            )
    return _tensors_of(content)


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _tensors_of(entries: dict) -> dict[str, torch.Tensor]:
    tensors = {k: v for k, v in entries.items() if _is_tensor(v)}
    for key in tensors:
        if not isinstance(key, str):
            raise _UnsupportedError(
                f"the name of a tensor is {shown(key)}, expected a string"
            )
    return tensors


def _has_nested_tensor(value: Any, seen: set[int]) -> bool:
    """Searches lists and dictionaries, which may be cyclic."""
    pending = [value]
    while pending:
        value = pending.pop()
        if _is_tensor(value):
            return True
        if isinstance(value, (dict, list, tuple)) and id(value) not in seen:
            seen.add(id(value))
            pending += value.values() if isinstance(value, dict) else value
    return False


def _check_limits(stream: io.BytesIO) -> None:
    """Rejects a pickle that would exhaust memory or time; reads it to its end.

    The opcodes are interpreted without creating objects: for each object, the
    stack records whether it is a tuple. Hashing nested tuples that share their
    elements takes exponential time, so tuples must not be dictionary keys. A
    damaged pickle is a `ValueError`, `IndexError` or `KeyError`.
    """
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    for step, (opcode, argument, _) in enumerate(pickletools.genops(stream)):
        name = opcode.name
        if step >= _MAX_STEPS:
            raise _UnsupportedError(
                f"its pickle has more than {_MAX_STEPS:,} opcodes"
            )
        if name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
            index = len(memo) if argument is None else int(argument)
            memo[index] = stack[-1]
            continue
        popped = _pop(stack, opcode)
        if name in _HASHED_OPERANDS and any(popped[_HASHED_OPERANDS[name]]):
            raise _UnsupportedError("its dictionaries have tuples as keys")
        if name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(memo[int(argument or 0)])
        else:
            is_tuple = name in _TUPLES
            stack += [
                _MARK if kind is pickletools.markobject else is_tuple
                for kind in opcode.stack_after
            ]


def _pop(stack: list[Any], opcode: pickletools.OpcodeInfo) -> list[Any]:
    """Pops the operands of an opcode, without the mark."""
    if opcode.name == "POP" and stack[-1:] == [_MARK]:
        return [stack.pop()]
    operands: list[Any] = []
    if pickletools.markobject in opcode.stack_before:
        while (item := stack.pop()) is not _MARK:
            operands.append(item)
        before = opcode.stack_before.index(pickletools.markobject)
    else:
        before = len(opcode.stack_before)
    operands += [stack.pop() for _ in range(before)]
    return operands[::-1]
