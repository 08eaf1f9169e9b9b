"""A machine for the pickles of PyTorch's weights files: it runs no code.

It carries out the few instructions that tensors in dictionaries need, knows the
names that they need, and refuses all others. Python's own unpickler would not
do: even where it is kept from importing anything, a file of some bytes makes it
exhaust the memory or the C stack.
"""

from __future__ import annotations

import dataclasses
import math
import pickletools
from typing import Any, BinaryIO

import numpy as np

BFLOAT16 = "bfloat16"  # which NumPy does not know: the upper half of a float32
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
_GLOBALS = frozenset(
    {
        "collections.OrderedDict",
        "torch._utils._rebuild_tensor",
        "torch._utils._rebuild_tensor_v2",
        "torch._utils._rebuild_tensor_v3",
        "torch._utils._rebuild_parameter",
        "torch._utils._rebuild_parameter_with_state",
    }
    | {f"torch.{name}" for name in _DTYPES}
    | {
        f"{module}.{name}"
        for module in ("torch", "torch.cuda", "torch.storage")
        for name in _STORAGES
    }
)
MAX_PICKLE = 1 << 24  # bytes; that of an ALBERT model takes some thousands
_MAX_RANK = 32  # of NumPy 1
_MAX_ITEMS = 1 << 60  # of which NumPy can still count the bytes


class RefusedError(Exception):
    """A pickle holds what `torch.save` does not write for plain tensors."""


@dataclasses.dataclass(frozen=True)
class _Global:
    """A name that a pickle asks for; never the thing it names."""

    path: str

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]


@dataclasses.dataclass(frozen=True)
class Storage:
    """`nbytes` bytes from byte `start` of what the file holds under `key`."""

    key: str
    dtype: str
    start: int
    nbytes: int


@dataclasses.dataclass(frozen=True)
class StoredTensor:
    """A view of a storage; the offset and the strides count items."""

    storage: Storage
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def span(self) -> int:
        """How many items lie from the tensor's first to its last."""
        if 0 in self.shape:
            return 0
        pairs = zip(self.shape, self.strides, strict=True)
        return 1 + sum((size - 1) * stride for size, stride in pairs)

    @property
    def start(self) -> int:
        """Where it begins, in bytes from the start of the key's data."""
        return self.storage.start + self.offset * itemsize_of(self.dtype)

    @property
    def stop(self) -> int:
        """Where it ends, in bytes from the start of the key's data."""
        return self.start + self.span * itemsize_of(self.dtype)


class PickleMachine:
    """Carries out the pickle instructions that dictionaries of tensors need.

    Attributes:
      itemsizes: storage key -> bytes of an item, of all storages met so far.
    """

    def __init__(self):
        self.itemsizes: dict[str, int] = {}

    def run(self, stream: BinaryIO) -> Any:
        """Reads one pickle, and leaves the stream behind it.

        Raises:
          RefusedError: an instruction or a name that is not needed.
          ValueError, LookupError: the pickle is damaged.
        """
        stack: list[Any] = []
        outer: list[list[Any]] = []  # the stacks below the marks
        memo: dict[int, Any] = {}
        for opcode, argument, _ in pickletools.genops(stream):
            match opcode.name:
                case "PROTO" | "FRAME":
                    pass
                case "STOP":
                    return stack.pop()
                case "MARK":
                    outer.append(stack)
                    stack = []
                case "NONE":
                    stack.append(None)
                case "NEWTRUE" | "NEWFALSE":
                    stack.append(opcode.name == "NEWTRUE")
                case (
                    "BININT" | "BININT1" | "BININT2" | "LONG1" | "BINFLOAT"
                    | "BINUNICODE" | "SHORT_BINUNICODE" | "SHORT_BINSTRING"
                ):  # fmt: skip
                    stack.append(argument)
                case "EMPTY_DICT":
                    stack.append({})
                case "EMPTY_LIST":
                    stack.append([])
                case "EMPTY_TUPLE":
                    stack.append(())
                case "TUPLE1" | "TUPLE2" | "TUPLE3":
                    size = int(opcode.name[-1])
                    stack.append(tuple(stack.pop() for _ in range(size))[::-1])
                case "TUPLE":
                    items = tuple(stack)
                    stack = outer.pop()
                    stack.append(items)
                case "APPEND":
                    item = stack.pop()
                    _extend_list(stack[-1], [item])
                case "APPENDS":
                    items, stack = stack, outer.pop()
                    _extend_list(stack[-1], items)
                case "SETITEM":
                    value, key = stack.pop(), stack.pop()
                    _extend_dict(stack[-1], [key, value])
                case "SETITEMS":
                    items, stack = stack, outer.pop()
                    _extend_dict(stack[-1], items)
                case "BINPUT" | "LONG_BINPUT":
                    memo[argument] = stack[-1]
                case "MEMOIZE":
                    memo[len(memo)] = stack[-1]
                case "BINGET" | "LONG_BINGET":
                    stack.append(memo[argument])
                case "GLOBAL":
                    stack.append(_find_global(*argument.split(" ", 1)))
                case "STACK_GLOBAL":
                    name, module = stack.pop(), stack.pop()
                    stack.append(_find_global(module, name))
                case "REDUCE":
                    arguments, function = stack.pop(), stack.pop()
                    stack.append(_call(function, arguments))
                case "BUILD":
                    stack.pop()
                    # The `_metadata` of a state dict, its modules' versions.
                    if not isinstance(stack[-1], dict):
                        raise RefusedError("its pickle holds other objects")
                case "BINPERSID":
                    stack.append(self._find_storage(stack.pop()))
                case name:
                    raise RefusedError(
                        f"its pickle has the instruction {name}, which tensors "
                        "do not need (no code was executed)"
                    )
        raise ValueError("the pickle is cut off")

    def _find_storage(self, identity: Any) -> Storage:
        """Resolves ("storage", type, key, device, items[, view])."""
        match identity:
            case ("storage", _Global() as kind, str(key), _, int(size), *view):
                start = 0
            case ("module", *_):
                raise RefusedError("a whole model, not its tensors")
            case _:
                raise ValueError("a storage is not told as torch tells it")
        if kind.name not in _STORAGES:
            raise ValueError(f"{kind.path} is no kind of storage")
        match view:
            case [(_, int(start), int(view_size))]:
                if not 0 <= start <= start + view_size <= size:
                    raise ValueError(f"a view reaches beyond storage {key}")
                size = view_size
            case [] | [None]:
                pass
            case _:
                raise ValueError("a storage is not told as torch tells it")
        if size < 0:
            raise ValueError(f"storage {key} has {size} items")
        dtype = _STORAGES[kind.name]
        itemsize = itemsize_of(dtype)
        if self.itemsizes.setdefault(key, itemsize) != itemsize:
            raise ValueError(f"storage {key} has two types")
        return Storage(key, dtype, start * itemsize, size * itemsize)


def _find_global(module: Any, name: Any) -> _Global:
    path = f"{module}.{name}" if type(module) is type(name) is str else ""
    if path not in _GLOBALS:
        raise RefusedError(
            f"its pickle asks for {_printable(path)}, which dense tensors of "
            "numbers do not need (no code was executed)"
        )
    return _Global(path)


def _printable(text: str) -> str:
    return text[:80] if text[:80].isprintable() else repr(text[:80])


def _extend_list(target: Any, items: list[Any]) -> None:
    if type(target) is not list:
        raise ValueError("items are appended to what is no list")
    target.extend(items)


def _extend_dict(target: Any, items: list[Any]) -> None:
    if type(target) is not dict or len(items) % 2:
        raise ValueError("entries are added to what is no dictionary")
    keys = items[::2]
    for key in keys:
        # Nothing nested: hashing a deep tuple would exhaust the C stack.
        if key is not None and type(key) not in (str, int, float, bool):
            raise RefusedError("a dictionary has keys that are no texts")
    target.update(zip(keys, items[1::2], strict=True))


def _call(function: Any, arguments: Any) -> Any:
    """Does what the function of that name would do, with stand-ins."""
    if not isinstance(function, _Global) or type(arguments) is not tuple:
        raise ValueError("something is called that is no function")
    match function.name, arguments:
        case "OrderedDict", ():
            return {}
        case "OrderedDict", (list(pairs),):
            entries: dict = {}
            for pair in pairs:  # lists of two, as Python 2 wrote them
                if type(pair) not in (list, tuple):
                    raise ValueError("a dictionary is made of no pairs")
                _extend_dict(entries, list(pair))
            return entries
        case "_rebuild_tensor", (_, _, _, _):
            return _make_tensor(*arguments)
        case "_rebuild_tensor_v2", (_, _, _, _, _, _, *metadata):
            _check_no_metadata(metadata)
            return _make_tensor(*arguments[:4])
        case "_rebuild_tensor_v3", (_, _, _, _, _, _, _Global() as dtype,
                                    *metadata):  # fmt: skip
            _check_no_metadata(metadata)
            return _make_tensor(*arguments[:4], _DTYPES[dtype.name])
        case "_rebuild_parameter", (StoredTensor() as tensor, _, _):
            return tensor
        case "_rebuild_parameter_with_state", (
            StoredTensor() as tensor,
            _,
            _,
            _,
        ):
            return tensor
    raise ValueError(f"{function.path} is called with wrong arguments")


def _check_no_metadata(metadata: list[Any]) -> None:
    """Refuses tensors whose stored numbers are to be negated."""
    match metadata:
        case [] | [None]:
            pass
        case [dict(flags)] if not any(flags.values()):
            pass
        case _:
            raise RefusedError("a tensor is a negated or conjugated view")


def _make_tensor(
    storage: Any,
    offset: Any,
    shape: Any,
    strides: Any,
    dtype: str | None = None,
) -> StoredTensor:
    if not (
        isinstance(storage, Storage)
        and type(shape) is type(strides) is tuple
        and len(shape) == len(strides) <= _MAX_RANK
        and all(type(n) is int and n >= 0 for n in (offset, *shape, *strides))
        and math.prod(max(1, n) for n in shape) <= _MAX_ITEMS
    ):
        raise ValueError("a tensor's shape is not told as torch tells it")
    tensor = StoredTensor(
        storage, dtype or storage.dtype, offset, shape, strides
    )
    if tensor.span and tensor.stop > storage.start + storage.nbytes:
        raise ValueError(
            f"a tensor of shape {list(shape)} reaches beyond its storage"
        )
    return tensor


def itemsize_of(dtype: str) -> int:
    """Returns the bytes of a number, bfloat16 included."""
    return 2 if dtype == BFLOAT16 else np.dtype(dtype).itemsize
