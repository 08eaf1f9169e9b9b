"""Rows of tokens, padded to the longest of a batch."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from albert_tf.export.endpoint import Tensors
from albert_tf.text.preprocessor import AlbertPreprocessor


def pack_to_longest(
    preprocessor: AlbertPreprocessor,
    segments: Sequence[tf.RaggedTensor],
    seq_length: int | tf.Tensor,
) -> Tensors:
    """Packs tokens for the encoder, with no more padding than it takes.

    Args:
      preprocessor: of the model.
      segments: one or two ragged ids `[batch, (tokens)]`.
      seq_length: what longer rows are cut to, see `bert_pack_inputs`.

    Returns:
      `input_word_ids`, `input_mask` and `input_type_ids`, int32
      `[batch, seq]`; in an empty batch seq is that of empty texts.
    """
    lengths = tf.add_n([segment.row_lengths() for segment in segments])
    # [CLS], and a [SEP] after each.
    longest = tf.reduce_max(tf.concat([lengths, [0]], 0)) + 1 + len(segments)
    return preprocessor.bert_pack_inputs(
        segments, tf.minimum(tf.cast(longest, tf.int32), seq_length)
    )
