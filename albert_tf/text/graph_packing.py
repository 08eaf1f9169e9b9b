"""`pack`, as TensorFlow operations."""

from collections.abc import Sequence

import tensorflow as tf


def pack_ragged(
    segments: Sequence[tf.RaggedTensor],
    seq_length: int | tf.Tensor,
    *,
    pad_id: int,
    cls_id: int,
    sep_id: int,
) -> dict[str, tf.Tensor]:
    """Packs one or two segments, as `[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]`.

    Trims and pads as `pack` does.

    Args:
      segments: one or two ragged `[batch, (tokens)]` or, from tokenizers that
        find words first, `[batch, (words), (pieces)]`.
      seq_length: length of the rows, an int or a scalar tensor.
      pad_id: fills the rows; mask and types are 0 there.
      cls_id: begins each row.
      sep_id: ends each segment.

    Returns:
      `input_word_ids`, `input_mask`, `input_type_ids`, int32
      `[batch, seq_length]`; that shape is static if `seq_length` is an int.
    """
    segments = _check_segments(segments)
    seq_length = _check_seq_length(seq_length, 1 + len(segments))
    lengths = [tf.cast(s.row_lengths(), tf.int32) for s in segments]
    budget = seq_length - 1 - len(segments)
    if len(segments) == 2:
        first, second = lengths
        second = tf.minimum(second, tf.maximum(budget // 2, budget - first))
        lengths = [tf.minimum(first, budget - second), second]
    else:
        lengths = [tf.minimum(lengths[0], budget)]

    # One gather fills the batch: every place holds the index of its id in a
    # pool of the three special ones and then all segments, end to end.
    pool = tf.concat(
        [[pad_id, cls_id, sep_id]]
        + [tf.cast(segment.values, tf.int32) for segment in segments],
        axis=0,
    )
    pad, cls, sep, pooled = 0, 1, 2, 3
    position = tf.range(seq_length)[None]
    index = tf.where(position == 0, cls, pad)
    begin = tf.constant(1)
    for segment, length in zip(segments, lengths, strict=True):
        end = begin + length[:, None]
        source = pooled + tf.cast(segment.row_starts(), tf.int32)[:, None]
        inside = (position >= begin) & (position < end)
        index = tf.where(inside, source + position - begin, index)
        index = tf.where(position == end, sep, index)
        pooled += tf.size(segment.values)
        segment_begin, begin = begin, end + 1
    mask = position < begin
    is_second = position >= segment_begin if len(segments) == 2 else False
    return {
        "input_word_ids": tf.gather(pool, index),
        "input_mask": tf.cast(mask, tf.int32),
        "input_type_ids": tf.cast(mask & is_second, tf.int32),
    }


def _check_segments(
    segments: Sequence[tf.RaggedTensor],
) -> list[tf.RaggedTensor]:
    """Returns the segments as `[batch, (tokens)]`."""
    if not isinstance(segments, (list, tuple)) or len(segments) not in (1, 2):
        found = f"{type(segments).__name__}"
        if isinstance(segments, (list, tuple)):
            found = f"of {len(segments)}"
        raise ValueError(
            f"segments must be a list of 1 or 2 ragged tensors, not {found}."
        )
    flat = []
    for i, segment in enumerate(segments):
        rank = isinstance(segment, tf.RaggedTensor) and segment.shape.rank
        if rank not in (2, 3):
            raise ValueError(
                f"segments[{i}] must be ragged [batch, (tokens)] or "
                f"[batch, (words), (pieces)], not {segment!r}."
            )
        flat.append(segment.merge_dims(1, 2) if rank == 3 else segment)
    if len(flat) == 2:
        tf.debugging.assert_equal(
            flat[0].nrows(),
            flat[1].nrows(),
            "Both segments must have the same batch size.",
        )
    return flat


def _check_seq_length(
    seq_length: int | tf.Tensor, least: int
) -> int | tf.Tensor:
    """Returns an int, if the value is known now, else an int32 scalar."""
    message = f"seq_length must be at least {least}, to hold [CLS] and [SEP]"
    value = tf.get_static_value(seq_length)
    if value is None:
        seq_length = tf.reshape(tf.cast(seq_length, tf.int32), [])
        tf.debugging.assert_greater_equal(seq_length, least, message)
        return seq_length
    if int(value) < least:
        raise ValueError(f"{message}, not {int(value)}.")
    return int(value)
