"""Serialization of `tf.train.Example` messages, and TFRecord framing.

Writing is vectorized over records and does not import TensorFlow.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence

import numpy as np

# Google's names, so that the original and Model Garden can read the records.
# The label is 1 if the second segment does not follow the first.
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

# Name of an input or label of the model -> Google's name of the feature.
FEATURE_OF_INPUT = {
    "input_word_ids": "input_ids",
    "input_mask": "input_mask",
    "input_type_ids": "segment_ids",
    "masked_lm_positions": "masked_lm_positions",
    "masked_lm_ids": "masked_lm_ids",
    "masked_lm_weights": "masked_lm_weights",
    "sentence_order_labels": "next_sentence_labels",
}

# Field numbers of the messages in tensorflow/core/example: an `Example` has a
# map of features, a `Feature` has one of the lists, and a list has values.
_FEATURES = _ENTRY = _NAME = _VALUES = 1
_FEATURE = 2
_FLOAT_LIST, _INT64_LIST = 2, 3

# A frame is the length of the record, its checksum, the record, its checksum.
_HEADER = np.dtype([("length", "<u8"), ("checksum", "<u4")])
_CHECKSUM = np.dtype("<u4")

# CRC-32C (Castagnoli), bits reversed. The initial remainder has all bits set;
# an initial remainder of 0 followed by these bytes is equivalent.
_POLYNOMIAL = 0x82F63B78
_INITIAL_BYTES = (0x641F6454).to_bytes(4, "little")


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
        _serialize_feature(name, features[name]) for name in sorted(features)
    ]
    return [
        _length_delimited(_FEATURES, b"".join(entries))
        for entries in zip(*columns, strict=True)
    ]


def _serialize_feature(name: str, feature: np.ndarray | Ragged) -> list[bytes]:
    """Returns each example's entry for a feature in its map of features."""
    if not isinstance(feature, Ragged):
        splits = np.arange(len(feature) + 1) * feature.shape[1]
        feature = Ragged(feature.ravel(), splits)
    if feature.values.dtype.kind == "f":
        kind, content = _FLOAT_LIST, feature.values.astype("<f4").tobytes()
        splits = 4 * feature.splits
    else:
        kind = _INT64_LIST
        content, offsets = _encode_varints(feature.values)
        splits = offsets[feature.splits]
    rows = [
        content[start:end] for start, end in itertools.pairwise(splits.tolist())
    ]
    return [_feature_header(name, kind, len(row)) + row for row in rows]


def _encode_varints(values: np.ndarray) -> tuple[bytes, np.ndarray]:
    """Encodes integers as base-128 varints.

    Returns:
      The concatenated bytes, and int64 `[values + 1]`, the offset of each
      value.
    """
    if values.min(initial=0) >= 0 and values.max(initial=0) < 0x80:
        return values.astype(np.uint8).tobytes(), np.arange(len(values) + 1)
    # Negative numbers are encoded in two's complement.
    rest = values.astype(np.uint64)
    sizes = np.ones(len(rest), np.int64)
    for bits in range(7, int(rest.max()).bit_length(), 7):
        sizes += rest >= 1 << bits
    splits = np.append(0, np.cumsum(sizes))
    encoded = np.empty(splits[-1], np.uint8)
    offsets = splits[:-1]
    while len(offsets):
        last = rest < 0x80
        encoded[offsets] = np.where(last, rest, rest & 0x7F | 0x80)
        rest, offsets = rest[~last] >> 7, offsets[~last] + 1
    return encoded.tobytes(), splits


@functools.lru_cache(maxsize=1 << 14)
def _feature_header(name: str, kind: int, size: int) -> bytes:
    """Returns an entry of the map of features without its `size` value bytes.

    The entry has the name and a `Feature`, which has a list of some kind, which
    has the values.
    """
    values = bytes(size)
    packed = _length_delimited(_VALUES, values) if size else b""
    feature = _length_delimited(kind, packed)
    entry = _length_delimited(_NAME, name.encode())
    entry += _length_delimited(_FEATURE, feature)
    return _length_delimited(_ENTRY, entry).removesuffix(values)


def _length_delimited(field: int, content: bytes) -> bytes:
    """Encodes a field of bytes or of a message."""
    size = len(content)
    header = bytearray([field << 3 | 2])
    while size >= 0x80:
        header.append(size & 0x7F | 0x80)
        size >>= 7
    header.append(size)
    return bytes(header) + content


def frame_records(records: Sequence[bytes]) -> list[bytes]:
    """Adds lengths and checksums to records, as in TFRecord files."""
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


def join_frames(frames: Sequence[bytes]) -> tuple[np.ndarray, bytes]:
    """Returns the lengths of frames, uint32 `[frames]`, and their bytes."""
    return np.array(list(map(len, frames)), np.uint32), b"".join(frames)


def _masked_crcs(texts: Sequence[bytes]) -> np.ndarray:
    """Returns the masked CRC-32C of each text, as in TFRecord files."""
    crcs = np.zeros(len(texts), np.uint32)
    # Texts of similar length become the rows of a matrix of 32-bit words.
    sizes = np.array([len(_INITIAL_BYTES) + len(text) for text in texts])
    levels = np.ceil(np.log2(sizes / 4)).astype(np.int64)
    for level in np.unique(levels).tolist():
        rows = np.flatnonzero(levels == level)
        # Leading zeros do not change the remainder.
        padded = [
            (_INITIAL_BYTES + texts[row]).rjust(4 << level, b"\0")
            for row in rows.tolist()
        ]
        words = np.frombuffer(b"".join(padded), "<u4")
        crcs[rows] = ~_remainders(words.reshape(len(rows), -1))
    return (crcs >> 15 | crcs << 17) + np.uint32(0xA282EAD8)


def _remainders(words: np.ndarray) -> np.ndarray:
    """Returns the remainders of rows of words modulo CRC-32C's polynomial.

    Remainders are linear. The remainder of two neighbors is the sum (XOR) of
    that of the second, and of the first followed by as many zeros as the second
    has words.

    Args:
      words: uint32 `[rows, words]`; the number of words is a power of two.

    Returns:
      uint32 `[rows]`.
    """
    level = 0
    while words.shape[1] > 1:
        words = words[:, 1::2] ^ _append_zeros(words[:, 0::2], level)
        level += 1
    return _append_zeros(words[:, 0], 0)


def _append_zeros(remainders: np.ndarray, level: int) -> np.ndarray:
    """Returns the remainders after appending `1 << level` zero words."""
    low, high = _zeros_table(level)
    return low.take(remainders & 0xFFFF) ^ high.take(remainders >> 16)


@functools.cache
def _zeros_table(level: int) -> np.ndarray:
    """Tabulates `_append_zeros` for both halves of a word, `[2, 65536]`."""
    halves = np.arange(1 << 16, dtype=np.uint32)
    table = np.stack([halves, halves << 16])
    if level == 0:
        for _ in range(32):
            odd = table & 1
            table = table >> 1 ^ odd * np.uint32(_POLYNOMIAL)
        return table
    return _append_zeros(_append_zeros(table, level - 1), level - 1)
