"""Dynamic examples: segments, order and masks drawn during training.

Draws differ between epochs and depend on a seed only, so that a resumed run
sees the same examples as an uninterrupted one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from albert_tf.data.data_config import MaskingConfig, SentenceOrder
from albert_tf.data.graph_masking import (
    fold_in,
    mask_words,
    num_predictions,
)
from albert_tf.data.packed_rows import (
    join_rows,
    share_predictions,
    split_rows,
)
from albert_tf.data.tokenized_documents import VocabularyTable
from albert_tf.text.base_tokenizer import Tokenizer

# Number of chunks that are tried as random next segments, until one is from
# another document.
_NSP_TRIES = 4

# Features of a record; see `chunks.Chunks.features`.
CHUNK_FEATURES = {
    "tokens": tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64),
    "sentence_starts": tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64),
    "document": tf.io.FixedLenFeature([], tf.int64),
}


@dataclasses.dataclass(frozen=True)
class ExampleSettings:
    """Settings of dynamic examples.

    Attributes:
      table: special ids and word starts of the vocabulary.
      max_seq_length: length of the examples.
      sentence_order: "sop": half of the examples are B A, with label 1. "nsp":
        in half of the examples, B is from another document, with label 1.
        "none": A only.
      masking: masking rate, n-grams and number of predictions.
      max_sequences: maximum number of sequences in a packed row; 0 if rows are
        not packed.
    """

    table: VocabularyTable
    max_seq_length: int
    sentence_order: SentenceOrder
    masking: MaskingConfig
    max_sequences: int = 0

    @classmethod
    def from_manifest(
        cls, settings: Mapping[str, Any], tokenizer: Tokenizer
    ) -> ExampleSettings:
        """Returns the settings recorded in a manifest."""
        names = [field.name for field in dataclasses.fields(MaskingConfig)]
        return cls(
            VocabularyTable.from_tokenizer(tokenizer),
            settings["max_seq_length"],
            settings["sentence_order"],
            MaskingConfig(**{name: settings[name] for name in names}),
            settings.get("max_sequences_per_row", 0),
        )


def make_examples(
    records: Mapping[str, Any], settings: ExampleSettings, seed: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Draws segments, their order and masks for chunks of text.

    A chunk is split into A and B at a uniformly drawn sentence boundary. If it
    has none, it becomes A without B and has no order: a boundary inside a
    sentence would reveal it. The two segments are never identical.

    Args:
      records: `CHUNK_FEATURES` of `[rows]` records. `tokens` are 1 to
        `max_seq_length - 3` ids without special tokens; with
        sentence_order="none", 1 to `max_seq_length - 2` ids, with a [SEP]
        between documents. `sentence_starts` are the boundaries in the chunk.
        With `max_sequences`, `ROW_FEATURES` of rows of several chunks instead.
      settings: vocabulary, length, sentence order and masking.
      seed: int64 `[2]`, random seed.

    Returns:
      The features of `pretraining_dataset`.
    """
    if not settings.max_sequences:
        return _make_examples(records, settings, seed)
    chunks, chunks_per_row = split_rows(records)
    examples = _make_examples(chunks, settings, seed, chunks_per_row)
    return join_rows(examples, chunks_per_row, settings.max_sequences)


def _make_examples(
    chunks: Mapping[str, Any],
    settings: ExampleSettings,
    seed: tf.Tensor,
    chunks_per_row: tf.Tensor | None = None,
) -> dict[str, tf.Tensor]:
    """Returns one example per chunk; see `make_examples`.

    With `chunks_per_row`, int64 `[rows]`, the chunks of a row share the
    maximum number of predictions.
    """
    table, max_seq_length = settings.table, settings.max_seq_length
    tokens = tf.cast(chunks["tokens"], tf.int32)
    text = tokens.to_tensor(0, shape=[None, max_seq_length])
    lengths = tf.cast(tokens.row_lengths(), tf.int32)
    split, labels = lengths, tf.zeros_like(lengths)
    if settings.sentence_order != "none":
        starts = chunks["sentence_starts"]
        split = draw_split(text, lengths, starts, fold_in(seed, 0))
    has_order = split < lengths
    a = Segments(text, tf.zeros_like(split), split)
    b = Segments(text, split, lengths - split)
    if settings.sentence_order != "none":
        draws = tf.random.stateless_uniform(
            tf.shape(lengths), fold_in(seed, 1), alg="philox"
        )
        is_changed = has_order & (draws < 0.5)
        if settings.sentence_order == "sop":
            a, b = a.where(is_changed, b), b.where(is_changed, a)
        else:
            partners, found = draw_partners(
                b.lengths, chunks["document"], is_changed, fold_in(seed, 2)
            )
            random_b = b.gather(partners)
            is_changed &= found & ~random_b.equals(a)
            b = b.where(is_changed, random_b)
        labels = tf.cast(is_changed, tf.int32)
    packed = _pack(a, b, table)
    masking = settings.masking
    quotas = num_predictions(packed["lengths"], masking)
    if chunks_per_row is not None:
        quotas = share_predictions(
            quotas, chunks_per_row, masking.max_predictions_per_seq
        )
    masked = mask_words(packed, table, fold_in(seed, 3), masking, quotas)
    return masked | {
        "input_mask": tf.cast(packed["input_mask"], tf.int32),
        "input_type_ids": tf.cast(packed["segment_ids"], tf.int32),
        "sentence_order_labels": labels,
        "sentence_order_weights": tf.cast(has_order, tf.float32),
    }


@dataclasses.dataclass(frozen=True, eq=False)
class Segments:
    """Segments of text, one per row.

    Attributes:
      text: int32 `[rows, seq]`.
      starts, lengths: int32 `[rows]`, the segments as slices of `text`.
    """

    text: tf.Tensor
    starts: tf.Tensor
    lengths: tf.Tensor

    def gather(self, rows: tf.Tensor) -> Segments:
        """Returns the segments of the given rows."""
        return Segments(
            *(
                tf.gather(x, rows)
                for x in (self.text, self.starts, self.lengths)
            )
        )

    def equals(self, other: Segments) -> tf.Tensor:
        """Returns bool `[rows]`: whether the tokens equal those of `other`."""
        column = tf.range(tf.shape(self.text)[1])

        def tokens(segments: Segments) -> tf.Tensor:
            columns = segments.starts[:, None] + column
            columns = tf.minimum(columns, tf.shape(segments.text)[1] - 1)
            values = tf.gather(segments.text, columns, batch_dims=1)
            return tf.where(column < segments.lengths[:, None], values, -1)

        return tf.reduce_all(tokens(self) == tokens(other), axis=1)

    def where(self, condition: tf.Tensor, other: Segments) -> Segments:
        """Returns the segments of `other` where `condition`, else these."""
        text = self.text
        if other.text is not text:
            text = tf.where(condition[:, None], other.text, text)
        return Segments(
            text,
            tf.where(condition, other.starts, self.starts),
            tf.where(condition, other.lengths, self.lengths),
        )


def draw_split(
    text: tf.Tensor,
    lengths: tf.Tensor,
    sentence_starts: tf.RaggedTensor,
    seed: tf.Tensor,
) -> tf.Tensor:
    """Draws the boundaries that split chunks into two different segments.

    Args:
      text: int32 `[rows, seq]`.
      lengths: int32 `[rows]`, number of tokens of the chunks.
      sentence_starts: int64 `[rows, (sentences)]`, sentence boundaries within
        the chunks.
      seed: int64 `[2]`, random seed.

    Returns:
      int32 `[rows]`, the length of the first segment; that of the chunk if it
      has no boundary.
    """
    rows, columns = sentence_starts.value_rowids(), sentence_starts.flat_values
    boundaries = tf.scatter_nd(
        tf.stack([rows, columns], axis=1),
        tf.ones_like(columns),
        tf.shape(text, tf.int64),
    )
    halves = 2 * tf.range(tf.shape(text)[1]) == lengths[:, None]
    allowed = boundaries > 0
    allowed &= ~(halves & _has_equal_halves(text, lengths)[:, None])
    keys = tf.random.stateless_uniform(tf.shape(text), seed, alg="philox")
    drawn = tf.argmax(tf.where(allowed, keys, -1.0), 1, output_type=tf.int32)
    return tf.where(tf.reduce_any(allowed, axis=1), drawn, lengths)


def _has_equal_halves(text: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Returns bool `[rows]`: whether the halves of a chunk are equal."""
    column = tf.range(tf.shape(text)[1])
    half = lengths[:, None] // 2
    later = tf.minimum(column + half, tf.shape(text)[1] - 1)
    same = text == tf.gather(text, later, batch_dims=1)
    return tf.reduce_all(same | (column >= half), axis=1)


def draw_partners(
    lengths: tf.Tensor, documents: tf.Tensor, chosen: tf.Tensor, seed: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Draws the chunks that provide random second segments, for NSP.

    A chosen chunk gets the segment of the chosen chunk with the next smaller
    length. Rows thus stay as full as they are, segments end at the ends of
    sentences, and neither the length nor the end of a segment reveals that it
    is random.

    Args:
      lengths: int32 `[chunks]`, length of the second segments.
      documents: int64 `[chunks]`, number of each chunk's document.
      chosen: bool `[chunks]`, which chunks get a random segment.
      seed: int64 `[2]`, random seed of the order of equal lengths.

    Returns:
      int32 `[chunks]`, the chunk that provides the segment, and bool
      `[chunks]`, whether it belongs to another document.
    """
    draws = tf.random.stateless_uniform(tf.shape(lengths), seed, alg="philox")
    keys = tf.cast(lengths, tf.float32) + draws
    # The chosen chunks come first, by ascending length.
    order = tf.argsort(tf.where(chosen, keys, float("inf")), stable=True)
    rank = tf.range(tf.size(order))
    documents = tf.gather(documents, order)
    partner = rank
    for step in range(1, _NSP_TRIES + 1):
        same = tf.gather(documents, partner) == documents
        partner = tf.where(same & (rank >= step), rank - step, partner)
    found = tf.gather(documents, partner) != documents
    rank_of_chunk = tf.argsort(order)
    partner = tf.gather(tf.gather(order, partner), rank_of_chunk)
    return partner, tf.gather(found, rank_of_chunk)


def _pack(
    a: Segments, b: Segments, table: VocabularyTable
) -> dict[str, tf.Tensor]:
    """Packs `[CLS] A [SEP] B [SEP]`, or `[CLS] A [SEP]` if there is no B.

    Returns:
      The arrays of `sentence_pairs.PackedPairs` as tensors `[rows, seq]`, and
      int32 `lengths` `[rows]`.
    """
    width = tf.shape(a.text)[1]
    column = tf.range(width)
    first_sep = (a.lengths + 1)[:, None]
    last_sep = first_sep + tf.where(b.lengths > 0, b.lengths + 1, 0)[:, None]
    in_a = (column > 0) & (column < first_sep)
    in_b = (column > first_sep) & (column < last_sep)

    def words(segments: Segments, first: tf.Tensor) -> tf.Tensor:
        source = segments.starts[:, None] + column - first
        source = tf.clip_by_value(source, 0, width - 1)
        return tf.gather(segments.text, source, batch_dims=1)

    special = tf.where(column == 0, table.cls_id, table.pad_id)
    is_sep = (column == first_sep) | (column == last_sep)
    input_ids = tf.where(is_sep, table.sep_id, special)
    input_ids = tf.where(in_a, words(a, tf.ones_like(first_sep)), input_ids)
    input_ids = tf.where(in_b, words(b, first_sep + 1), input_ids)
    input_mask = column <= last_sep
    # A may contain [SEP] between documents.
    is_text = (in_a | in_b) & (input_ids != table.sep_id)
    starts = tf.gather(tf.constant(table.word_starts), input_ids)
    return {
        "input_ids": input_ids,
        "input_mask": input_mask,
        "segment_ids": input_mask & (column > first_sep),
        "is_text": is_text,
        "token_boundary": input_mask & (~is_text | starts),
        "lengths": last_sep[:, 0] + 1,
    }
