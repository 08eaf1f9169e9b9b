"""Serialized examples, and their frames in TFRecord files."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
)
from google.protobuf.message import DecodeError

# Google's names, so that the original and Model Garden read our records. The
# label is 1 where the second segment does not follow the first.
INT_FEATURES = (
    "input_ids",
    "input_mask",
    "masked_lm_ids",
    "masked_lm_positions",
    "next_sentence_labels",
    "segment_ids",
    "token_boundary",
)
FLOAT_FEATURES = ("masked_lm_weights",)

# Name of a model's input or label -> Google's name of the feature.
FEATURE_OF_INPUT = {
    "input_word_ids": "input_ids",
    "input_mask": "input_mask",
    "input_type_ids": "segment_ids",
    "masked_lm_positions": "masked_lm_positions",
    "masked_lm_ids": "masked_lm_ids",
    "masked_lm_weights": "masked_lm_weights",
    "sentence_order_labels": "next_sentence_labels",
}

# Fields of the messages of tensorflow/core/example: an `Example` has a map of
# features, a `Feature` one of the lists, and a list values.
_FEATURES = _ENTRY = _NAME = _VALUES = 1
_FEATURE = 2
_FLOAT_LIST, _INT64_LIST = 2, 3

# A frame is the record's length and its checksum, the record and its checksum.
_HEADER = np.dtype([("length", "<u8"), ("checksum", "<u4")])
_CHECKSUM = np.dtype("<u4")

# CRC-32C (Castagnoli), bits reversed. It begins with all bits of the remainder
# set, as they are after these bytes if it begins with none.
_POLYNOMIAL = 0x82F63B78
_ALL_SET = (0x641F6454).to_bytes(4, "little")


@dataclasses.dataclass(frozen=True)
class Ragged:
    """Rows of different lengths, end to end, as in `tf.RaggedTensor`.

    Attributes:
      values: `[values]`, all rows.
      splits: int64 `[rows + 1]`, where each row begins, and the last one ends.
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
        """Number of the row of each value, `[values]`."""
        return np.repeat(np.arange(len(self.splits) - 1), np.diff(self.splits))

    def __getitem__(self, row: int) -> np.ndarray:
        """Returns one row."""
        return self.values[self.splits[row] : self.splits[row + 1]]


def serialize_examples(
    features: Mapping[str, np.ndarray | Ragged],
) -> list[bytes]:
    """Serializes features to one `Example` each.

    Integers are stored as int64, other numbers as float.

    Args:
      features: name -> values of all examples, `[examples, values]` or ragged.

    Returns:
      The records, with the bytes of TensorFlow's deterministic serialization.
    """
    columns = [_column(name, features[name]) for name in sorted(features)]
    return [
        _tagged(_FEATURES, b"".join(parts))
        for parts in zip(*columns, strict=True)
    ]


def _column(name: str, feature: np.ndarray | Ragged) -> list[bytes]:
    """Returns a feature of each example as an entry of the map of features."""
    if not isinstance(feature, Ragged):
        splits = np.arange(len(feature) + 1) * feature.shape[1]
        feature = Ragged(feature.ravel(), splits)
    if feature.values.dtype.kind == "f":
        kind, content = _FLOAT_LIST, feature.values.astype("<f4").tobytes()
        ends = 4 * feature.splits
    else:
        kind = _INT64_LIST
        content, ends_of_values = _varints(feature.values)
        ends = ends_of_values[feature.splits]
    rows = [content[a:b] for a, b in itertools.pairwise(ends.tolist())]
    return [_feature_header(name, kind, len(row)) + row for row in rows]


def _varints(values: np.ndarray) -> tuple[bytes, np.ndarray]:
    """Encodes integers as base-128 varints.

    Returns:
      The bytes of all, and int64 `[values + 1]`, where those of each begin.
    """
    if values.min(initial=0) >= 0 and values.max(initial=0) < 0x80:
        return values.astype(np.uint8).tobytes(), np.arange(len(values) + 1)
    # The bits of a negative number are those of one above 2**63.
    rest = values.astype(np.uint64)
    sizes = np.ones(len(rest), np.int64)
    for bits in range(7, int(rest.max()).bit_length(), 7):
        sizes += rest >= 1 << bits
    splits = np.append(0, np.cumsum(sizes))
    encoded = np.empty(splits[-1], np.uint8)
    places = splits[:-1]
    while len(places):
        last = rest < 0x80
        encoded[places] = np.where(last, rest, rest & 0x7F | 0x80)
        rest, places = rest[~last] >> 7, places[~last] + 1
    return encoded.tobytes(), splits


@functools.lru_cache(maxsize=1 << 14)
def _feature_header(name: str, kind: int, size: int) -> bytes:
    """Returns the entry of a feature up to its packed values of `size` bytes.

    The entry has the name and a `Feature`, which has a list of a kind, which
    has the values.
    """
    values = bytes(size)
    packed = _tagged(_VALUES, values) if size else b""
    feature = _tagged(kind, packed)
    entry = _tagged(_NAME, name.encode()) + _tagged(_FEATURE, feature)
    return _tagged(_ENTRY, entry).removesuffix(values)


def _tagged(field: int, content: bytes) -> bytes:
    """Returns a field of a message, of bytes or a message, with its length."""
    size = len(content)
    header = bytearray([field << 3 | 2])
    while size >= 0x80:
        header.append(size & 0x7F | 0x80)
        size >>= 7
    header.append(size)
    return bytes(header) + content


def frame_records(records: Sequence[bytes]) -> list[bytes]:
    """Returns records as TFRecord files hold them, with their checksums."""
    headers = np.zeros(len(records), _HEADER)
    headers["length"] = [len(record) for record in records]
    lengths = headers["length"].tobytes()
    headers["checksum"] = _masked_crcs(
        [lengths[i : i + 8] for i in range(0, len(lengths), 8)]
    )
    checksums = _masked_crcs(records).astype(_CHECKSUM).tobytes()
    before = headers.tobytes()
    return [
        before[12 * i : 12 * (i + 1)] + record + checksums[4 * i : 4 * (i + 1)]
        for i, record in enumerate(records)
    ]


def unframed(frame: bytes) -> bytes:
    """Returns the record of a frame."""
    return frame[_HEADER.itemsize : -_CHECKSUM.itemsize]


def _masked_crcs(texts: Sequence[bytes]) -> np.ndarray:
    """Returns the CRC-32C of each text, masked as in TFRecord files."""
    crcs = np.zeros(len(texts), np.uint32)
    # Texts of about the same length are rows of a matrix of words.
    sizes = np.array([len(_ALL_SET) + len(text) for text in texts])
    levels = np.ceil(np.log2(sizes / 4)).astype(np.int64)
    for level in np.unique(levels).tolist():
        rows = np.flatnonzero(levels == level)
        # Zeros before a text change nothing.
        padded = [
            (_ALL_SET + texts[row]).rjust(4 << level, b"\0")
            for row in rows.tolist()
        ]
        words = np.frombuffer(b"".join(padded), "<u4")
        crcs[rows] = ~_remainders(words.reshape(len(rows), -1))
    return (crcs >> 15 | crcs << 17) + np.uint32(0xA282EAD8)


def _remainders(words: np.ndarray) -> np.ndarray:
    """Returns the remainders of rows of words by CRC-32C's polynomial.

    Remainders are linear: that of a row is the sum (XOR) of those of its second
    half and of its first, with as many zeros behind it as the second is long.

    Args:
      words: uint32 `[rows, words]`, a power of two of them.

    Returns:
      uint32 `[rows]`.
    """
    level = 0
    while words.shape[1] > 1:
        words = words[:, 1::2] ^ _before_zeros(words[:, 0::2], level)
        level += 1
    return _before_zeros(words[:, 0], 0)


def _before_zeros(remainders: np.ndarray, level: int) -> np.ndarray:
    """Returns the remainders of what is followed by `1 << level` zero words."""
    low, high = _zeros_table(level)
    return low.take(remainders & 0xFFFF) ^ high.take(remainders >> 16)


@functools.cache
def _zeros_table(level: int) -> np.ndarray:
    """Returns uint32 `[2, 65536]`: `_before_zeros` of half a word each."""
    halves = np.arange(1 << 16, dtype=np.uint32)
    table = np.stack([halves, halves << 16])
    if level == 0:
        for _ in range(32):
            odd = table & 1
            table = table >> 1 ^ odd * np.uint32(_POLYNOMIAL)
        return table
    return _before_zeros(_before_zeros(table, level - 1), level - 1)


def parse_example(record: bytes) -> dict[str, np.ndarray]:
    """Parses one record to its features.

    Returns:
      Name -> int64 or float32 array, `[values]`.

    Raises:
      ValueError: the bytes are not a serialized `Example`.
    """
    try:
        example = _Example.FromString(record)
    except DecodeError as error:
        raise ValueError(f"not a serialized Example: {error}") from None
    parsed: dict[str, np.ndarray] = {}
    for name, feature in example.features.feature.items():
        if feature.HasField("int64_list"):
            parsed[name] = np.array(feature.int64_list.value, np.int64)
        else:
            parsed[name] = np.array(feature.float_list.value, np.float32)
    return parsed


def _example_class() -> Any:
    """Returns the class of tensorflow/core/example/example.proto's Example."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="example.proto", package="tensorflow", syntax="proto3"
    )

    def add(scope, name, *fields):
        message = scope.add(name=name)
        for number, (field_name, label, kind) in enumerate(fields, 1):
            is_message = isinstance(kind, str)
            message.field.add(
                name=field_name,
                number=number,
                label=label,
                type=field.TYPE_MESSAGE if is_message else kind,
                type_name=f".tensorflow.{kind}" if is_message else None,
            )
        return message

    one, many = field.LABEL_OPTIONAL, field.LABEL_REPEATED
    types = file.message_type
    add(types, "BytesList", ("value", many, field.TYPE_BYTES))
    add(types, "FloatList", ("value", many, field.TYPE_FLOAT))
    add(types, "Int64List", ("value", many, field.TYPE_INT64))
    kind = add(
        types,
        "Feature",
        ("bytes_list", one, "BytesList"),
        ("float_list", one, "FloatList"),
        ("int64_list", one, "Int64List"),
    )
    kind.oneof_decl.add(name="kind")
    for member in kind.field:
        member.oneof_index = 0
    features = add(
        types, "Features", ("feature", many, "Features.FeatureEntry")
    )
    entry = add(
        features.nested_type,
        "FeatureEntry",
        ("key", one, field.TYPE_STRING),
        ("value", one, "Feature"),
    )
    entry.options.map_entry = True
    add(types, "Example", ("features", one, "Features"))

    # A pool of its own: TensorFlow registers the same names in the default one.
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(
        pool.FindMessageTypeByName("tensorflow.Example")
    )


_Example = _example_class()
