"""Checks of TFRecord files: framing, checksums and values."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import os
import re
import struct
import zlib
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.data.chunks import NUM_SPECIAL_TOKENS
from albert_tf.data.dynamic_examples import CHUNK_FEATURES, ROW_FEATURES
from albert_tf.errors import InputError
from albert_tf.files import is_remote
from albert_tf.input_files import open_input

_READ_BUFFER_BYTES = 4 << 20


# Parts of the error messages of `parse_checked`: for values out of bounds, and
# for features of the wrong size.
BAD_RECORDS = ("records have values out of bounds", "ParseExample")

# Raised for records that cannot be parsed. TensorFlow quotes them, and decoding
# its message fails if they are not UTF-8.
PARSE_ERRORS = (tf.errors.InvalidArgumentError, UnicodeDecodeError)


@dataclasses.dataclass(frozen=True)
class RecordLimits:
    """Sizes of masked records, and bounds of their values.

    Attributes:
      max_seq_length: tokens per record.
      max_predictions_per_seq: predictions per record.
      vocab_size: exclusive bound of token ids.
      type_vocab_size: exclusive bound of segment ids.
    """

    max_seq_length: int
    max_predictions_per_seq: int
    vocab_size: int
    type_vocab_size: int

    @property
    def sizes(self) -> str:
        """The sizes in words."""
        return (
            f"{self.max_seq_length} tokens and {self.max_predictions_per_seq} "
            "predictions"
        )

    @property
    def feature_spec(self) -> dict[str, tf.io.FixedLenFeature]:
        """The features for `tf.io.parse_example`."""
        tokens = tf.io.FixedLenFeature([self.max_seq_length], tf.int64)
        size = [self.max_predictions_per_seq]
        return {
            "input_ids": tokens,
            "input_mask": tokens,
            "segment_ids": tokens,
            "masked_lm_positions": tf.io.FixedLenFeature(size, tf.int64),
            "masked_lm_ids": tf.io.FixedLenFeature(size, tf.int64),
            "masked_lm_weights": tf.io.FixedLenFeature(size, tf.float32),
            "next_sentence_labels": tf.io.FixedLenFeature([], tf.int64),
        }

    def problems(self, parsed: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Finds records whose values are out of bounds.

        The models do not check ids and positions: looking up one that is out of
        bounds gives zeros, or tokens of another record.

        Args:
          parsed: the features of `[batch]` records, in int64.

        Returns:
          Problem -> bool `[batch]`, whether a record has it.
        """
        bounds = {
            "input_ids": self.vocab_size,
            "input_mask": 2,
            "segment_ids": self.type_vocab_size,
            "masked_lm_positions": self.max_seq_length,
            "masked_lm_ids": self.vocab_size,
            "next_sentence_labels": 2,
        }

        def rows(wrong: tf.Tensor) -> tf.Tensor:
            return tf.reduce_any(tf.reshape(wrong, [tf.shape(wrong)[0], -1]), 1)

        weights = parsed["masked_lm_weights"]
        mask = parsed["input_mask"]
        positions = tf.clip_by_value(
            parsed["masked_lm_positions"], 0, self.max_seq_length - 1
        )
        predicts_padding = (weights != 0) & (
            tf.gather(mask, positions, batch_dims=1) == 0
        )
        return {
            f"{name} must be from 0 to {bound - 1}": rows(
                (parsed[name] < 0) | (parsed[name] >= bound)
            )
            for name, bound in bounds.items()
        } | {
            "input_mask is 0 everywhere": ~rows(mask != 0),
            "masked_lm_weights must be finite and at least 0": rows(
                (weights < 0) | ~tf.math.is_finite(weights)
            ),
            "a prediction where input_mask is 0": rows(predicts_padding),
        }


@dataclasses.dataclass(frozen=True)
class TextLimits:
    """Sizes of text records, and bounds of their values.

    Attributes:
      max_tokens: maximum number of tokens per record.
      vocab_size: exclusive bound of token ids.
      max_sequences: maximum number of chunks per packed record; 0: not packed.
    """

    max_tokens: int
    vocab_size: int
    max_sequences: int = 0

    @property
    def sizes(self) -> str:
        """The sizes in words."""
        if self.max_sequences:
            return "tokens, sentence_starts, chunk_starts and documents"
        return "tokens, sentence_starts and one document"

    @property
    def feature_spec(self) -> dict[str, Any]:
        """The features for `tf.io.parse_example`."""
        return ROW_FEATURES if self.max_sequences else CHUNK_FEATURES

    def problems(self, parsed: dict[str, Any]) -> dict[str, tf.Tensor]:
        """Finds records whose values are out of bounds; see `RecordLimits`."""
        tokens, starts = parsed["tokens"], parsed["sentence_starts"]
        lengths = tokens.row_lengths()
        ends = tf.gather(lengths, starts.value_rowids())

        ids, offsets = tokens.flat_values, starts.flat_values
        return {
            f"it must have 1 to {self.max_tokens} tokens": (lengths < 1)
            | (lengths > self.max_tokens),
            f"tokens must be from 0 to {self.vocab_size - 1}": _rows_with(
                tokens, (ids < 0) | (ids >= self.vocab_size)
            ),
            "sentence_starts must be within the tokens": _rows_with(
                starts, (offsets < 1) | (offsets >= ends)
            ),
        } | (self._problems_of_chunks(parsed) if self.max_sequences else {})

    def _problems_of_chunks(
        self, parsed: dict[str, tf.RaggedTensor]
    ) -> dict[str, tf.Tensor]:
        """Finds records whose chunks do not fit in one row."""
        lengths = parsed["tokens"].row_lengths()
        starts = parsed["chunk_starts"]
        edges = tf.concat(
            [
                tf.zeros([starts.nrows(), 1], tf.int64),
                starts,
                lengths[:, tf.newaxis],
            ],
            axis=1,
        )
        sizes = edges[:, 1:] - edges[:, :-1]
        chunks = starts.row_lengths() + 1
        sentences = parsed["sentence_starts"]
        steps = sentences[:, 1:] - sentences[:, :-1]
        special = NUM_SPECIAL_TOKENS  # that training adds to each chunk
        room = self.max_tokens + special
        return {
            "chunk_starts must ascend, and be within the tokens": _rows_with(
                sizes, sizes.flat_values < 1
            ),
            "sentence_starts must ascend": _rows_with(
                steps, steps.flat_values < 1
            ),
            f"its chunks must have at most {room} tokens with "
            f"{special} special tokens each": lengths + special * chunks > room,
            f"it must have at most {self.max_sequences} chunks": (
                chunks > self.max_sequences
            ),
            "it must have one document for each chunk": (
                parsed["documents"].row_lengths() != chunks
            ),
        }


def _rows_with(values: tf.RaggedTensor, wrong: tf.Tensor) -> tf.Tensor:
    """Returns whether any value of a row is wrong, bool `[rows]`."""
    numbers = tf.cast(wrong, tf.int32)
    return tf.reduce_any(values.with_flat_values(numbers) > 0, axis=1)


def parse_checked(
    records: tf.Tensor, limits: RecordLimits | TextLimits
) -> dict[str, Any]:
    """Parses string `[batch]` in a graph, and fails on values out of bounds.

    Returns:
      The features by name, in int64.
    """
    parsed = tf.io.parse_example(records, limits.feature_spec)
    wrong = tf.stack([*limits.problems(parsed).values()])
    check = tf.debugging.Assert(~tf.reduce_any(wrong), [BAD_RECORDS[0]])
    with tf.control_dependencies([check]):
        return tf.nest.map_structure(
            tf.identity, parsed, expand_composites=True
        )


def read_records(path: str | tf.Tensor) -> tf.data.TFRecordDataset:
    """Reads the serialized records of a file; `.gz` is decompressed."""
    is_gzip = tf.strings.regex_full_match(path, r".*\.gz")
    compression = tf.where(is_gzip, "GZIP", "")
    return tf.data.TFRecordDataset(
        path, compression, buffer_size=_READ_BUFFER_BYTES
    )


# A record is preceded by its length and the CRC of that, and followed by a CRC.
_LENGTH = struct.Struct("<Q")
_FRAME_BYTES = 16

_UNREADABLE = (
    *(OSError, EOFError, OverflowError, ValueError, TypeError),
    *(zlib.error, tf.errors.OpError),
)


def count_records(path: str, most: int | None = None) -> int:
    """Counts the records of a file by their lengths, up to `most`.

    Call it before TensorFlow reads a file: it allocates the length that a
    damaged record claims, and crashes if there is not enough memory.

    Raises:
      InputError: if it is not a regular file, or a record claims more bytes
        than the file has.
    """
    if not (is_remote(path) or os.path.isfile(path)):
        raise InputError(f"records {path}: not a regular file")
    number = 0
    past_end = (OSError,) if is_remote(path) else ()
    try:
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(open_input(path))
            if path.endswith(".gz"):
                file = stack.enter_context(gzip.open(file))
            while number != most and (header := file.read(_LENGTH.size)):
                number += 1
                if len(header) < _LENGTH.size:
                    raise EOFError("the file ends in a record")
                (length,) = _LENGTH.unpack(header)
                rest = length + _FRAME_BYTES - _LENGTH.size
                # Seeking past the end is an error of remote files only, so read
                # the last byte.
                with contextlib.suppress(*past_end):
                    file.seek(rest - 1, os.SEEK_CUR)
                    if file.read(1):
                        continue
                raise EOFError(f"it claims {length} bytes, more than follow")
    except _UNREADABLE as error:
        raise damaged(path, f"record {number}: {error}") from None
    return number


def verify_file(
    path: str, limits: RecordLimits | TextLimits | None = None
) -> int:
    """Reads a whole file and verifies checksums and, with `limits`, values.

    Returns:
      The number of records.

    Raises:
      InputError: if the file is damaged or a record has invalid values; the
        message has the number of the first such record.
    """
    count_records(path)
    count = 0
    try:
        for batch in read_records(path).batch(1024):
            if limits is not None:
                _check_batch(path, batch, limits, count)
            count += len(batch)
    except (tf.errors.DataLossError, tf.errors.NotFoundError) as error:
        raise damaged(path, error.message) from None
    return count


def _check_batch(
    path: str, batch: tf.Tensor, limits: RecordLimits | TextLimits, first: int
) -> None:
    """Checks the values of records, the first of which has number `first`."""
    try:
        parsed = tf.io.parse_example(batch, limits.feature_spec)
        problems = limits.problems(parsed)
    except PARSE_ERRORS:
        if len(batch) > 1:  # TensorFlow does not say which record it is.
            half = len(batch) // 2
            _check_batch(path, batch[:half], limits, first)
            _check_batch(path, batch[half:], limits, first + half)
            return
        problems = {f"it does not have {limits.sizes} like the others": [True]}
    rows = {name: np.flatnonzero(wrong) for name, wrong in problems.items()}
    found = [(wrong[0], name) for name, wrong in rows.items() if len(wrong)]
    if found:
        row, problem = min(found, key=lambda each: each[0])
        raise InputError(
            f"records {path}: record {first + row + 1}: {problem}; make the "
            "data again"
        )


def damaged(path: str, reason: str) -> InputError:
    """Returns the error for a file that cannot be read completely."""
    # Strip the names of TensorFlow operations from the message.
    reason = re.sub(r"\{\{.*?\}\}|\[Op:.*", "", reason).strip()
    return InputError(
        f"records {path}: not a complete TFRecord file ({reason}); copy it "
        "again, or make the data again"
    )
