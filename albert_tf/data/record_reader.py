"""Reading of `tf.train.Example` records without TensorFlow."""

from __future__ import annotations

import contextlib
import functools
import gzip
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from albert_tf.input_files import open_input

# The messages of tensorflow/core/example: name -> fields from 1 on. Importing
# them from TensorFlow takes seconds. A map is a list of its entries.
_MESSAGES = {
    "Bytes": [("value", "*bytes")],
    "Floats": [("value", "*float")],
    "Ints": [("value", "*int64")],
    "Feature": [("bytes", "Bytes"), ("floats", "Floats"), ("ints", "Ints")],
    "Entry": [("key", "string"), ("value", "Feature")],
    "Features": [("feature", "*Entry")],
    "Example": [("features", "Features")],
}

# Of a record: its length and the checksum of that; then the record's checksum.
_HEADER = struct.Struct("<QI")
_CHECKSUM_BYTES = 4

# Raised by `read_examples` for a damaged file; a record may claim any length.
READ_ERRORS = (
    *(ValueError, EOFError, MemoryError, OverflowError),
    *(gzip.BadGzipFile, struct.error, zlib.error),
)


@functools.cache
def _example_class() -> Any:
    """Returns a class that parses `tf.train.Example`."""
    types = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="e", syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, (field, kind) in enumerate(fields, 1):
            added = message.field.add(name=field, number=number)
            added.label = types.LABEL_OPTIONAL
            if kind.startswith("*"):
                added.label = types.LABEL_REPEATED
            kind = kind.removeprefix("*")
            if kind in _MESSAGES:
                added.type, added.type_name = types.TYPE_MESSAGE, f".{kind}"
            else:
                added.type = types.Type.Value(f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(
        pool.FindMessageTypeByName("Example")
    )


def parse_example(record: bytes) -> dict[str, np.ndarray]:
    """Parses a record.

    Returns:
      Name of each feature -> int64 or float32 `[values]`.

    Raises:
      ValueError: If the bytes are not a serialized `Example`.
    """
    try:
        example = _example_class().FromString(record)
    except DecodeError as error:
        raise ValueError(f"not a serialized Example: {error}") from None
    return {
        entry.key: np.array(entry.value.ints.value, np.int64)
        if entry.value.HasField("ints")
        else np.array(entry.value.floats.value, np.float32)
        for entry in example.features.feature
    }


def read_examples(path: str) -> Iterator[dict[str, np.ndarray]]:
    """Yields the parsed records of a TFRecord file; `.gz` is decompressed.

    Checksums are not verified.

    Raises:
      InputError: If the file cannot be opened.
      READ_ERRORS: If it is damaged.
    """
    with contextlib.ExitStack() as stack:
        file: Any = stack.enter_context(open_input(path))
        if path.endswith(".gz"):
            file = stack.enter_context(gzip.open(file))
        while header := file.read(_HEADER.size):
            length, _ = _HEADER.unpack(header)
            record = file.read(length)
            if len(file.read(_CHECKSUM_BYTES)) < _CHECKSUM_BYTES:
                raise ValueError("the file ends in a record")
            yield parse_example(record)
