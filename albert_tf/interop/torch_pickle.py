"""Limits on pickles of `torch.save`, checked before PyTorch reads them.

`torch.load(weights_only=True)` executes no code of a pickle, but a small one
can still make it take memory or time without end.
"""

from __future__ import annotations

import io
import pickletools
from typing import Any

MAX_PICKLE = 1 << 22  # bytes; an ALBERT needs less than a hundredth
_MAX_STEPS = 500_000  # opcodes
_MAX_BITS = 128  # of an integer

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


def check_limits(stream: io.BytesIO) -> None:
    """Rejects a pickle that would exhaust memory or time.

    The opcodes are interpreted without creating objects: for each object, the
    stack records whether it is a tuple. Hashing nested tuples that share their
    elements takes exponential time, so tuples must not be dictionary keys. The
    stream is then at the pickle's end.

    Raises:
      UnsupportedError: if the pickle exceeds a limit.
      ValueError, IndexError, KeyError: if it is damaged.
    """
    size = len(stream.getbuffer())
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
