"""Pairs of segments as padded rows: `[CLS] A [SEP] B [SEP]`."""

from __future__ import annotations

import dataclasses

import numpy as np

from albert_tf.data.sentence_pairs import SentencePairs
from albert_tf.data.vocabulary_table import VocabularyTable


@dataclasses.dataclass(frozen=True)
class PackedPairs:
    """Rows of token ids and what kind of token stands where.

    All arrays are `[pairs, seq]`; beyond the last [SEP] they are padding: the
    id of `<pad>`, and 0.

    Attributes:
      input_ids: int32 token ids.
      input_mask: bool, True on tokens.
      segment_ids: bool, True on B and its [SEP].
      token_boundary: bool, True on [CLS], [SEP] and pieces that begin a word.
      is_text: bool, True on the tokens of A and B.
    """

    input_ids: np.ndarray
    input_mask: np.ndarray
    segment_ids: np.ndarray
    token_boundary: np.ndarray
    is_text: np.ndarray


def pack_pairs(
    tokens: np.ndarray,
    pairs: SentencePairs,
    table: VocabularyTable,
    max_seq_length: int,
) -> PackedPairs:
    """Lays pairs out as rows. A pair without a B is `[CLS] A [SEP]`.

    Args:
      tokens: int32 `[tokens]`, what `pairs` are slices of.
      pairs: segments of together at most `max_seq_length - 3` tokens.
      table: ids of the special tokens, and the word starts.
      max_seq_length: length of the rows.
    """
    column = np.arange(max_seq_length)
    first_sep = pairs.a_lengths[:, None] + 1
    last_sep = (first_sep + pairs.b_lengths[:, None]) + (
        pairs.b_lengths[:, None] > 0
    )
    in_a = (column > 0) & (column < first_sep)
    in_b = (column > first_sep) & (column < last_sep)
    is_text = in_a | in_b
    source = np.where(
        in_a,
        pairs.a_starts[:, None] + column - 1,
        pairs.b_starts[:, None] + column - first_sep - 1,
    )
    input_ids = np.full(source.shape, table.pad_id, np.int32)
    input_ids[:, 0] = table.cls_id
    input_ids[(column == first_sep) | (column == last_sep)] = table.sep_id
    input_ids[is_text] = tokens[source[is_text]]
    input_mask = column <= last_sep
    return PackedPairs(
        input_ids=input_ids,
        input_mask=input_mask,
        segment_ids=input_mask & (column > first_sep),
        token_boundary=input_mask & (~is_text | table.word_starts[input_ids]),
        is_text=is_text,
    )
