"""Pickles of `torch.save`, read without running any of their code.

Python's own `Unpickler` reads them, restricted as its documentation
recommends: `find_class` knows the few names that dense tensors need, and
returns stand-ins for them.
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

# Limits against files that would exhaust the machine; those of an ALBERT are
# a hundred times smaller.
MAX_PICKLE = 1 << 22  # bytes
_MAX_STEPS = 500_000  # opcodes
_MAX_PAIRS = 100_000  # entries copied into dictionaries
_MAX_BITS = 128  # of an integer
_MAX_RANK = 32  # of NumPy 1
_MAX_ITEMS = 1 << 34  # elements of a tensor, also where strides are 0


# Opcodes that no dictionary of tensors needs.
_REFUSED = (
    "BYTEARRAY8 DUP EXT1 EXT2 EXT4  NEXT_BUFFER READONLY_BUFFER"
).split()
# Opcodes that hash -> which of the objects that they take.
_KEYS = {
    "DICT": slice(0, None, 2),
    "SETITEM": slice(1, 2),
    "SETITEMS": slice(1, None, 2),
    "ADDITEMS": slice(1, None),
    "FROZENSET": slice(0, None),
}
_TUPLES = ("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3")
_MARK = object()
_TUPLE_KEY = "a tuple is a key of its dictionaries"


class RefusedError(Exception):
    """A pickle asks for something that a state dict does not need."""


class Storage(NamedTuple):
    """Bytes `start` to `start + nbytes` of the data stored under `key`."""

    key: str
    dtype: str
    start: int
    nbytes: int


class StoredTensor(NamedTuple):
    """A view of a storage; the offset and the strides count items.

    An immutable tuple: a pickle cannot change it after it was checked.
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
        """First byte, counted from the start of the key's data."""
        return self.storage.start + self.offset * _ITEMSIZES[self.dtype]

    @property
    def stop(self) -> int:
        """Byte after the last, counted from the start of the key's data."""
        return self.start + self.span * _ITEMSIZES[self.dtype]


class _Dict(dict):
    """Stand-in for `collections.OrderedDict`, without its attributes."""

    __slots__ = ()

    def __setstate__(self, state):
        """Ignores attributes, such as `_metadata` of a module's state."""


class _Function:
    """Stand-in for a function that a pickle calls by name."""

    def __init__(self, function):
        self._function = function

    def __call__(self, *arguments):
        return self._function(*arguments)

    def __setstate__(self, state):
        raise ValueError("attributes of a function are set")


class TensorUnpickler(pickle.Unpickler):
    """Unpickles dictionaries, numbers, text and dense tensors.

    Attributes:
      itemsizes: storage key -> bytes of an item.
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
        """Returns a stand-in for one of the allowed names."""
        path = f"{module}.{name}"
        if path in self._functions:
            return _Function(self._functions[path])
        if module in ("torch", "torch.cuda", "torch.storage"):
            if name in _STORAGES:
                return _STORAGES[name]
        if module == "torch" and name in _DTYPES:
            return _DTYPES[name]
        shown = path[:80] if path[:80].isprintable() else repr(path[:80])
        raise RefusedError(
            f"its pickle asks for {shown}, which dense tensors of numbers do "
            "not need (no code was executed)"
        )

    def persistent_load(self, pid: Any) -> Storage:
        """Returns the storage that a tensor refers to."""
        match pid:
            case ("storage", str(dtype), str(key), _, int(size)):
                view = None
            case ("storage", str(dtype), str(key), _, int(size), view):
                pass
            case ("module", *_):
                raise RefusedError("a whole model, not its tensors")
            case _:
                raise ValueError("a storage is not described as torch does")
        if dtype not in _ITEMSIZES:
            raise ValueError(f"{shown(dtype)} is not a type of storage")
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
                    raise ValueError(
                        f"a view reaches beyond storage {key[:80]}"
                    )
        if size < 0:
            raise ValueError(f"storage {key[:80]} has {size} items")
        return Storage(key, dtype, start * itemsize, size * itemsize)

    def _make_dict(self, pairs=()) -> _Dict:
        # Python 2 wrote the pairs as a list of lists.
        self._pairs += len(pairs)
        if self._pairs > _MAX_PAIRS:
            raise RefusedError("its dictionaries are too large")
        pairs = pairs.items() if isinstance(pairs, dict) else pairs
        if any(isinstance(key, tuple) for key, _ in pairs):
            raise RefusedError(_TUPLE_KEY)
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
        raise ValueError("a tensor is not described as torch does")
    tensor = StoredTensor(
        storage, dtype or storage.dtype, offset, shape, strides
    )
    if tensor.span and tensor.stop > storage.start + storage.nbytes:
        raise ValueError(
            f"a tensor of shape {list(shape)} reaches beyond its storage"
        )
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
        raise ValueError("the type of a tensor is unknown")
    return _make_tensor(storage, offset, shape, strides, dtype)


def _check_metadata(metadata: dict[str, bool] | None) -> None:
    """Refuses tensors whose stored numbers are to be negated."""
    if metadata and any(metadata.values()):
        raise RefusedError("a tensor is a negated or conjugated view")


def _make_parameter(tensor, requires_grad, hooks, state=None) -> StoredTensor:
    if not isinstance(tensor, StoredTensor):
        raise ValueError("a parameter is not made of a tensor")
    return tensor


def _check_limits(stream: io.BytesIO) -> None:
    """Refuses a pickle that would exhaust memory or time.

    It is read once without making any object: the stack holds, for each one,
    whether it is a tuple. Hashing tuples of tuples that share their parts
    takes exponential time, so none may be a key. The position stays.
    """
    start, size = stream.tell(), len(stream.getbuffer())
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    for step, (opcode, argument, _) in enumerate(pickletools.genops(stream)):
        name = opcode.name
        if step >= _MAX_STEPS:
            raise RefusedError(f"its pickle has more than {_MAX_STEPS:,} steps")
        if name in _REFUSED:
            raise RefusedError(f"its pickle uses {name}")
        if type(argument) is int and argument.bit_length() > _MAX_BITS:
            raise RefusedError("its pickle holds a huge integer")
        if name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
            # The unpickler allocates what these announce.
            index = len(memo) if argument is None else int(argument)
            if index > size:
                raise ValueError("its memo is larger than the pickle")
            memo[index] = stack[-1]
            continue
        popped = _pop(stack, opcode)
        if name in _KEYS and any(popped[_KEYS[name]]):
            raise RefusedError(_TUPLE_KEY)
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
    """Takes what an opcode takes from the stack, without the mark."""
    if opcode.name == "POP" and stack[-1:] == [_MARK]:
        return [stack.pop()]
    taken: list[Any] = []
    if pickletools.markobject in opcode.stack_before:
        while (item := stack.pop()) is not _MARK:
            taken.append(item)
        before = opcode.stack_before.index(pickletools.markobject)
    else:
        before = len(opcode.stack_before)
    taken += [stack.pop() for _ in range(before)]
    return taken[::-1]


def unpickle(stream: io.BytesIO) -> tuple[Any, TensorUnpickler]:
    """Returns the next object of a stream, and the unpickler that read it."""
    _check_limits(stream)
    unpickler = TensorUnpickler(stream)
    return unpickler.load(), unpickler
