"""Protocol Buffers' wire format, read without parsing messages."""

from __future__ import annotations

from collections.abc import Iterator


def fields_of(content: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yields the length-delimited fields of protobuf's wire format."""
    position = 0
    while position < len(content):
        tag, position = varint(content, position)
        size = {0: 0, 1: 8, 2: 0, 5: 4}.get(tag & 7)
        if size is None:
            raise ValueError(f"no field begins at byte {position}")
        if tag & 7 in (0, 2):
            value, position = varint(content, position)
            size = value if tag & 7 == 2 else 0
        end = position + size
        if end > len(content):
            raise ValueError(f"{end - len(content)} bytes are missing")
        if tag & 7 == 2:
            yield tag >> 3, content[position:end]
        position = end


def varint(content: memoryview, position: int) -> tuple[int, int]:
    """Decodes a variable-length integer; also returns the next position."""
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(content):
            raise ValueError("it is truncated")
        byte = content[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
    raise ValueError(f"no number ends at byte {position}")
