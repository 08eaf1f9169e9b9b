"""Pickles of `torch.save`, read without executing any of their code.

Python's `Unpickler` is restricted as its documentation recommends: `find_class`
allows only the names that dense tensors need, and returns stand-ins for them.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from albert_tf.input_files import shown

BFLOAT16 = "bfloat16"  # unknown to NumPy: the upper half of a float32
_STORAGES = {
    "DoubleStorage": "f8",
    "FloatStorage": "f4",
    "HalfStorage": "f2",
    "BFloat16Storage": BFLOAT16,
    "LongStorage": "i8",
    "IntStorage": "i4",
    "ShortStorage": "i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "b1",
    "UntypedStorage": "u1",
    "_UntypedStorage": "u1",
}
_DTYPES = {
    "float64": "f8",
    "float32": "f4",
    "float16": "f2",
    "bfloat16": BFLOAT16,
    "int64": "i8",
    "int32": "i4",
    "int16": "i2",
    "int8": "i1",
    "uint8": "u1",
    "uint16": "u2",
    "uint32": "u4",
    "uint64": "u8",
    "bool": "b1",
}
_ITEMSIZES = {
    code: 2 if code == BFLOAT16 else np.dtype(code).itemsize
    for code in (*_STORAGES.values(), *_DTYPES.values())
}

# Limits against malicious files; an ALBERT needs less than a hundredth.
MAX_PICKLE = 1 << 22  # bytes
_MAX_STEPS = 500_000  # opcodes
_MAX_PAIRS = 100_000  # entries copied into dictionaries
_MAX_BITS = 128  # of an integer
_MAX_RANK = 32  # of NumPy 1
_MAX_ITEMS = 1 << 34  # elements of a tensor, also where strides are 0


# Opcodes that no dictionary of tensors needs.
_FORBIDDEN_OPCODES = (
    "BYTEARRAY8 DUP EXT1 EXT2 EXT4 NEXT_BUFFER READONLY_BUFFER"
).split()
# Opcode -> which of its operands it hashes.
_HASHED_OPERANDS = {
    "DICT": slice(0, None, 2),
    "SETITEM": slice(1, 2),
    "SETITEMS": slice(1, None, 2),
    "ADDITEMS": slice(1, None),
    "FROZENSET": slice(0, None),
}
_TUPLES = ("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3")
_MARK = object()
_TUPLE_KEY = "its dictionaries have tuples as keys"


class UnsupportedError(Exception):
    """Raised for file contents that a state dict does not need."""


class Storage(NamedTuple):
    """Bytes `start` to `start + nbytes` of the data stored under `key`."""

    key: str
    dtype: str
    start: int
    nbytes: int


class StoredTensor(NamedTuple):
    """A view of a storage, with offset and strides in items.

    It is immutable, so that a pickle cannot modify it after validation.
    """

    storage: Storage
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def span(self) -> int:
        """Number of items from the tensor's first to its last."""
        if 0 in self.shape:
            return 0
        pairs = zip(self.shape, self.strides, strict=True)
        return 1 + sum((size - 1) * stride for size, stride in pairs)

    @property
    def start(self) -> int:
        """Offset of the first byte in the storage key's data."""
        return self.storage.start + self.offset * _ITEMSIZES[self.dtype]

    @property
    def stop(self) -> int:
        """Offset after the last byte in the storage key's data."""
        return self.start + self.span * _ITEMSIZES[self.dtype]


class _Dict(dict):
    """Stand-in for `collections.OrderedDict` that has no attributes."""

    __slots__ = ()

    def __setstate__(self, state):
        """Ignores attributes, such as `_metadata` of a state dict."""


class _Function:
    """Stand-in for a function that a pickle calls."""

    def __init__(self, function):
        self._function = function

    def __call__(self, *arguments):
        return self._function(*arguments)

    def __setstate__(self, state):
        raise ValueError("it sets attributes of a function")


class TensorUnpickler(pickle.Unpickler):
    """Unpickles dictionaries, numbers, strings and dense tensors.

    Attributes:
      itemsizes: storage key -> size of an item in bytes.
    """

    def __init__(self, file: BinaryIO):
        super().__init__(file, encoding="utf-8")
        self.itemsizes: dict[str, int] = {}
        self._pairs = 0
        self._functions = {
            "collections.OrderedDict": self._make_dict,
            "torch._utils._rebuild_tensor": _make_tensor,
            "torch._utils._rebuild_tensor_v2": _make_tensor_v2,
            "torch._utils._rebuild_tensor_v3": _make_tensor_v3,
            "torch._utils._rebuild_parameter": _make_parameter,
            "torch._utils._rebuild_parameter_with_state": _make_parameter,
        }

    def find_class(self, module: str, name: str) -> Any:
        """Returns a stand-in for an allowed name."""
        path = f"{module}.{name}"
        if path in self._functions:
            return _Function(self._functions[path])
        if module in ("torch", "torch.cuda", "torch.storage"):
            if name in _STORAGES:
                return _STORAGES[name]
        if module == "torch" and name in _DTYPES:
            return _DTYPES[name]
        printable = path[:80] if path[:80].isprintable() else repr(path[:80])
        raise UnsupportedError(
            f"its pickle asks for {printable}, which dense tensors of numbers "
            "do not need (no code was executed)"
        )

    def persistent_load(self, pid: Any) -> Storage:
        """Returns the storage that a tensor refers to."""
        match pid:
            case ("storage", str(dtype), str(key), _, int(size)):
                view = None
            case ("storage", str(dtype), str(key), _, int(size), view):
                pass
            case ("module", *_):
                raise UnsupportedError("a pickled model, not its tensors")
            case _:
                raise ValueError("it describes a storage in an unknown way")
        if dtype not in _ITEMSIZES:
            raise ValueError(f"{shown(dtype)} is not a storage type")
        itemsize = _ITEMSIZES[dtype]
        if self.itemsizes.setdefault(key, itemsize) != itemsize:
            raise ValueError(f"storage {key[:80]} has two types")
        start = 0
        if view is not None:
            match view:
                case (_, int(start), int(length)) if (
                    0 <= start and 0 <= length and start + length <= size
                ):
                    size = length
                case _:
                    raise ValueError(f"a view exceeds storage {key[:80]}")
        if size < 0:
            raise ValueError(f"storage {key[:80]} has {size} items")
        return Storage(key, dtype, start * itemsize, size * itemsize)

    def _make_dict(self, pairs=()) -> _Dict:
        # Python 2 wrote the pairs as a list of lists.
        self._pairs += len(pairs)
        if self._pairs > _MAX_PAIRS:
            raise UnsupportedError("its dictionaries are too large")
        pairs = pairs.items() if isinstance(pairs, dict) else pairs
        if any(isinstance(key, tuple) for key, _ in pairs):
            raise UnsupportedError(_TUPLE_KEY)
        return _Dict(pairs)


def _make_tensor(storage, offset, shape, strides, dtype=None) -> StoredTensor:
    if not (
        isinstance(storage, Storage)
        and type(shape) is type(strides) is tuple
        and len(shape) == len(strides) <= _MAX_RANK
        and all(
            type(n) is int and 0 <= n <= _MAX_ITEMS
            for n in (offset, *shape, *strides)
        )
        and math.prod(max(1, n) for n in shape) <= _MAX_ITEMS
    ):
        raise ValueError("it describes a tensor in an unknown way")
    tensor = StoredTensor(
        storage, dtype or storage.dtype, offset, shape, strides
    )
    if tensor.span and tensor.stop > storage.start + storage.nbytes:
        raise ValueError(f"a tensor of shape {list(shape)} exceeds its storage")
    return tensor


def _make_tensor_v2(
    storage, offset, shape, strides, requires_grad, hooks, metadata=None
) -> StoredTensor:
    _check_metadata(metadata)
    return _make_tensor(storage, offset, shape, strides)


def _make_tensor_v3(
    storage, offset, shape, strides, requires_grad, hooks, dtype, metadata=None
) -> StoredTensor:
    _check_metadata(metadata)
    if not isinstance(dtype, str) or dtype not in _ITEMSIZES:
        raise ValueError("a tensor has an unknown dtype")
    return _make_tensor(storage, offset, shape, strides, dtype)


def _check_metadata(metadata: dict[str, bool] | None) -> None:
    """Rejects views that negate or conjugate the stored numbers."""
    if metadata and any(metadata.values()):
        raise UnsupportedError("a tensor is a negated or conjugated view")


def _make_parameter(tensor, requires_grad, hooks, state=None) -> StoredTensor:
    if not isinstance(tensor, StoredTensor):
        raise ValueError("a parameter is not a tensor")
    return tensor


def _check_limits(stream: io.BytesIO) -> None:
    """Rejects a pickle that would exhaust memory or time.

    The opcodes are interpreted without creating objects: for each object, the
    stack records whether it is a tuple. Hashing nested tuples that share their
    elements takes exponential time, so tuples must not be dictionary keys. The
    stream's position does not change.
    """
    start, size = stream.tell(), len(stream.getbuffer())
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    for step, (opcode, argument, _) in enumerate(pickletools.genops(stream)):
        name = opcode.name
        if step >= _MAX_STEPS:
            raise UnsupportedError(
                f"its pickle has more than {_MAX_STEPS:,} opcodes"
            )
        if name in _FORBIDDEN_OPCODES:
            raise UnsupportedError(f"its pickle uses {name}")
        if type(argument) is int and argument.bit_length() > _MAX_BITS:
            raise UnsupportedError("its pickle has a huge integer")
        if name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
            # The unpickler allocates a memo of this size.
            index = len(memo) if argument is None else int(argument)
            if index > size:
                raise ValueError("its memo is larger than the pickle")
            memo[index] = stack[-1]
            continue
        popped = _pop(stack, opcode)
        if name in _HASHED_OPERANDS and any(popped[_HASHED_OPERANDS[name]]):
            raise UnsupportedError(_TUPLE_KEY)
        if name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(memo[int(argument or 0)])
        else:
            is_tuple = name in _TUPLES
            stack += [
                _MARK if kind is pickletools.markobject else is_tuple
                for kind in opcode.stack_after
            ]
    stream.seek(start)


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


def unpickle(stream: io.BytesIO) -> tuple[Any, TensorUnpickler]:
    """Unpickles the next object of a stream; also returns the unpickler."""
    _check_limits(stream)
    unpickler = TensorUnpickler(stream)
    return unpickler.load(), unpickler
