"""Packing of token ids into inputs of the encoder, in NumPy and in graphs."""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from albert_tf.optional_packages import import_package

# The names of the encoder's inputs, in the order in which models take them.
ENCODER_INPUTS = ("input_word_ids", "input_mask", "input_type_ids")


class Segment(NamedTuple):
    """Token ids of one segment of each example, without padding.

    Attributes:
      ids: ids of all examples, int32 `[tokens]`.
      starts: index of the first id of each example, int32 `[batch]`.
      lengths: number of ids of each example, int32 `[batch]`.
    """

    ids: Any
    starts: Any
    lengths: Any


def make_segment(rows: Sequence[Sequence[int]]) -> Segment:
    """Makes a segment of the ids of each example."""
    lengths = np.fromiter(map(len, rows), np.int32, len(rows))
    size = int(lengths.sum())
    ids = np.fromiter(itertools.chain.from_iterable(rows), np.int32, size)
    return Segment(ids, np.cumsum(lengths, dtype=np.int32) - lengths, lengths)


def longest_sequence(ops: Any, segments: Sequence[Segment]) -> Any:
    """Returns the length of the longest sequence of `pack`, untrimmed."""
    lengths = _lengths(ops, segments)
    return ops.largest(sum(lengths)) + 1 + len(segments)


def _lengths(ops, segments):
    """Returns the lengths of segments, which must be of the same batch."""
    lengths = [segment.lengths for segment in segments]
    if len(lengths) == 2:  # One text would be paired with each of a batch.
        lengths[0] = ops.check_sizes(
            *lengths, "Both segments must have the same batch size."
        )
    return lengths


def pack(
    ops: Any,
    tokenizer: Any,
    segments: Sequence[Segment],
    seq_length: Any,
    *,
    drop_empty: bool = False,
) -> dict[str, Any]:
    """Packs one or two segments, as `[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]`.

    Pairs that are too long are trimmed round-robin: one id is taken from each
    segment in turn, starting with the first, until the sequence is full. So
    three free positions are split 2 + 1, and positions that a short segment
    leaves unused go to the other one.

    Args:
      ops: `ArrayOps` or `TensorOps`.
      tokenizer: the tokenizer, for its special ids.
      segments: one or two segments of the same batch.
      seq_length: length to trim and pad to; an int or an int32 scalar.
      drop_empty: whether an empty second segment has no `[SEP]`.

    Returns:
      Dict of `input_word_ids`, `input_mask` and `input_type_ids`, int32
      `[batch, seq]`; mask and types are 0 at padding.
    """
    lengths = _lengths(ops, segments)
    separators = [1] * len(segments)
    if drop_empty and len(segments) == 2:
        separators[1] = ops.integers(lengths[1] > 0)
    budget = seq_length - 1 - sum(separators)
    if len(segments) == 2:
        first, second = lengths
        second = ops.minimum(second, ops.maximum(budget // 2, budget - first))
        lengths = [ops.minimum(first, budget - second), second]
    else:
        lengths = [ops.minimum(lengths[0], budget)]

    # A single gather fills the batch: each position is an index into the
    # concatenation of the three special ids and all segments.
    special_ids = [tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id]
    pool = ops.concat([special_ids, *(x.ids for x in segments)], 0)
    pad, cls, sep, pooled = 0, 1, 2, 3
    position = ops.arange(seq_length)[None]
    index = ops.where(position == 0, cls, pad)
    segment_begin = begin = 1
    for segment, length, separator in zip(
        segments, lengths, separators, strict=True
    ):
        end = begin + length[:, None]
        following = end + ops.reshape(separator, [-1, 1])
        source = pooled + segment.starts[:, None]
        inside = (position >= begin) & (position < end)
        index = ops.where(inside, source + position - begin, index)
        index = ops.where(
            (position >= end) & (position < following), sep, index
        )
        pooled += ops.shape(segment.ids)[0]
        segment_begin, begin = begin, following
    mask = position < begin
    is_second = position >= segment_begin if len(segments) == 2 else False
    return {
        "input_word_ids": ops.cast(ops.gather(pool, index), np.int32),
        "input_mask": ops.cast(mask, np.int32),
        "input_type_ids": ops.cast(mask & is_second, np.int32),
    }


def pack_to_longest(
    ops: Any,
    tokenizer: Any,
    segments: Sequence[Segment],
    max_length: Any,
    *,
    multiple: int = 1,
    drop_empty: bool = False,
) -> dict[str, Any]:
    """Packs segments, and pads only to the longest sequence; see `pack`.

    The length is at most `max_length`, and otherwise rounded up to a multiple
    of `multiple`.
    """
    longest = longest_sequence(ops, segments)
    longest += -longest % multiple
    length = ops.minimum(longest, max_length)
    return pack(ops, tokenizer, segments, length, drop_empty=drop_empty)


def as_tensors(rows: dict[str, np.ndarray], kind: str) -> dict[str, Any]:
    """Converts arrays to "np" (as they are), "tf" or, in int64, "pt".

    Raises:
      ValueError: if `kind` is another one.
      InputError: if PyTorch is not installed.
    """
    if kind == "np":
        return rows
    if kind == "tf":
        tensorflow = import_package("tensorflow", "return_tensors='tf'")
        return {x: tensorflow.constant(y) for x, y in rows.items()}
    if kind == "pt":
        torch = import_package("torch", "return_tensors='pt'")
        # As transformers: its models need int64.
        return {x: torch.from_numpy(y.astype("int64")) for x, y in rows.items()}
    raise ValueError(f"return_tensors={kind!r} must be 'np', 'tf' or 'pt'")
