"""TFRecord files of `tf.train.Example` messages, without TensorFlow."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gzip
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import google_crc32c
import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from albert_tf.input_files import open_input

# Name of an input or label of the model -> Google's name of the feature, so
# that the original and Model Garden can read the records. The label is 1 if the
# second segment does not follow the first.
FEATURE_OF_INPUT = {
    "input_word_ids": "input_ids",
    "input_mask": "input_mask",
    "input_type_ids": "segment_ids",
    "masked_lm_positions": "masked_lm_positions",
    "masked_lm_ids": "masked_lm_ids",
    "masked_lm_weights": "masked_lm_weights",
    "sentence_order_labels": "next_sentence_labels",
}

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


@dataclasses.dataclass(frozen=True)
class Ragged:
    """Concatenated rows of different lengths, like a `tf.RaggedTensor`.

    Attributes:
      values: `[values]`, values of all rows.
      splits: int64 `[rows + 1]`, offsets of the rows, and the number of values.
    """

    values: np.ndarray
    splits: np.ndarray

    @classmethod
    def from_slices(
        cls, values: np.ndarray, starts: np.ndarray, ends: np.ndarray
    ) -> Ragged:
        """Returns the slices `[starts, ends)` of an array as rows."""
        lengths = ends - starts
        splits = np.append(0, np.cumsum(lengths))
        shifts = np.repeat(starts - splits[:-1], lengths)
        return cls(values[np.arange(splits[-1]) + shifts], splits)

    @property
    def row_of_value(self) -> np.ndarray:
        """Index of the row of each value, `[values]`."""
        return np.repeat(np.arange(len(self.splits) - 1), np.diff(self.splits))

    def __len__(self) -> int:
        return len(self.splits) - 1

    def select(self, rows: np.ndarray) -> Ragged:
        """Returns the rows given by a mask or by their indices."""
        return self.from_slices(
            self.values, self.splits[:-1][rows], self.splits[1:][rows]
        )

    def __getitem__(self, row: int) -> np.ndarray:
        """Returns a row."""
        return self.values[self.splits[row] : self.splits[row + 1]]


def serialize_examples(
    features: Mapping[str, np.ndarray | Ragged],
) -> list[bytes]:
    """Serializes features as `Example` messages.

    Integers are stored as int64, other numbers as float.

    Args:
      features: name -> values of all examples, `[examples, values]` or ragged.

    Returns:
      The records, byte for byte as TensorFlow's deterministic serialization.
    """
    columns = [
        _entries(name, feature) for name, feature in sorted(features.items())
    ]
    return [
        _example_class()(features={"feature": entries}).SerializeToString()
        for entries in zip(*columns, strict=True)
    ]


def _entries(
    name: str, feature: np.ndarray | Ragged
) -> Iterator[dict[str, Any]]:
    """Yields each example's entry for a feature in its map of features."""
    for row in feature:
        if row.dtype.kind == "f":
            value = {"floats": {"value": row.tolist()}}
        else:
            value = {"ints": {"value": row.astype(np.int64).tolist()}}
        yield {"key": name, "value": value}


def frame_records(records: Sequence[bytes]) -> list[bytes]:
    """Adds lengths and checksums to records, as in TFRecord files."""
    lengths = [len(record).to_bytes(8, "little") for record in records]
    return [
        b"".join((length, _checksum(length), record, _checksum(record)))
        for length, record in zip(lengths, records, strict=True)
    ]


def _checksum(content: bytes) -> bytes:
    """Returns the masked CRC-32C of TFRecord files."""
    crc = google_crc32c.value(content)
    masked = (crc >> 15 | crc << 17) + 0xA282EAD8
    return (masked & 0xFFFFFFFF).to_bytes(_CHECKSUM_BYTES, "little")


def join_frames(frames: Sequence[bytes]) -> tuple[np.ndarray, bytes]:
    """Returns the lengths of frames, uint32 `[frames]`, and their bytes."""
    return np.array(list(map(len, frames)), np.uint32), b"".join(frames)


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
      ValueError: if the bytes are not a serialized `Example`.
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
      InputError: if the file cannot be opened.
      READ_ERRORS: if it is damaged.
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
