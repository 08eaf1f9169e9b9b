"""Dynamic examples: segments, order and masks drawn during training.

Draws differ between epochs and depend on a seed only, so that a resumed run
sees the same examples as an uninterrupted one.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.data.block_worker import BlockRecords
from albert_tf.data.data_config import (
    MaskingConfig,
    PretrainingDataConfig,
    SentenceOrder,
)
from albert_tf.data.masking import mask_words, num_predictions
from albert_tf.data.packed_rows import join_rows, share_predictions, split_rows
from albert_tf.data.sentence_pairs import (
    SentencePairs,
    draw_partners,
    pack_pairs,
)
from albert_tf.data.tfrecords import (
    FEATURE_OF_INPUT,
    Ragged,
    frame_records,
    join_frames,
    serialize_examples,
)
from albert_tf.data.tokenized_documents import VocabularyTable
from albert_tf.tensor_ops import TensorOps, fold_in
from albert_tf.text.base_tokenizer import Tokenizer

_RAGGED = tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64)

# Features of a record; see `chunks.Chunks.features`.
CHUNK_FEATURES = {
    "tokens": _RAGGED,
    "sentence_starts": _RAGGED,
    "document": tf.io.FixedLenFeature([], tf.int64),
}

# Features of a record of several chunks, which are chosen by
# `chunks.pack_chunks`; see `chunks.ChunkRows.features`.
ROW_FEATURES = dict.fromkeys(
    ("tokens", "chunk_starts", "sentence_starts", "documents"), _RAGGED
)


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
      max_sequences: maximum number of sequences in a row; 0 if each row has
        one.
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
        # `word_starts` is missing where it is the default.
        masking = MaskingConfig(
            **{name: settings[name] for name in names if name in settings}
        )
        return cls(
            VocabularyTable.from_tokenizer(tokenizer, masking.word_starts),
            settings["max_seq_length"],
            settings["sentence_order"],
            masking,
            settings.get("max_sequences_per_row", 0),
        )


def make_examples(
    records: Mapping[str, Any], settings: ExampleSettings, seed: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Draws segments, their order and masks for chunks of text.

    A chunk is split into A and B at a uniformly drawn sentence boundary. If it
    has none, it becomes A without B and has no order: a boundary inside a
    sentence would reveal it.

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
        examples = mask_chunks(records, settings, seed)
        del examples["token_boundary"]
        return examples
    chunks, chunks_per_row = split_rows(records)
    examples = mask_chunks(chunks, settings, seed, chunks_per_row)
    return join_rows(examples, chunks_per_row, settings.max_sequences)


def mask_chunks(
    chunks: Mapping[str, Any],
    settings: ExampleSettings,
    seed: tf.Tensor,
    chunks_per_row: tf.Tensor | None = None,
) -> dict[str, tf.Tensor]:
    """Returns one example per chunk; see `make_examples`.

    With `chunks_per_row`, int64 `[rows]`, the chunks of a row share the
    maximum number of predictions. The examples also have the int32
    `token_boundary` `[rows, seq]` of Google's records.
    """
    table, max_seq_length = settings.table, settings.max_seq_length
    tokens = chunks["tokens"]
    lengths = tf.cast(tokens.row_lengths(), tf.int32)
    pairs, has_order = _draw_pairs(chunks, lengths, settings, seed)
    ids = tf.cast(tokens.flat_values, tf.int32)
    packed = pack_pairs(TensorOps(), ids, pairs, table, max_seq_length)
    masking = settings.masking
    quotas = tf.gather(num_predictions(max_seq_length, masking), packed.lengths)
    if chunks_per_row is not None:
        quotas = share_predictions(
            quotas, chunks_per_row, masking.max_predictions_per_seq
        )
    ops = TensorOps(fold_in(seed, 3))
    masked = mask_words(ops, packed, quotas, table, masking)
    return {
        "input_word_ids": masked.input_ids,
        "masked_lm_positions": masked.positions,
        "masked_lm_ids": masked.ids,
        "masked_lm_weights": masked.weights,
        "input_mask": tf.cast(packed.input_mask, tf.int32),
        "input_type_ids": tf.cast(packed.segment_ids, tf.int32),
        "sentence_order_labels": pairs.labels,
        "sentence_order_weights": tf.cast(has_order, tf.float32),
        "token_boundary": tf.cast(packed.token_boundary, tf.int32),
    }


def _draw_pairs(
    chunks: Mapping[str, Any],
    lengths: tf.Tensor,
    settings: ExampleSettings,
    seed: tf.Tensor,
) -> tuple[SentencePairs, tf.Tensor]:
    """Draws the segments of chunks, as slices of all tokens, and their order.

    Returns:
      The pairs, and bool `[rows]`, whether each one has an order.
    """
    order = settings.sentence_order
    tokens = chunks["tokens"]
    starts = tf.cast(tokens.row_starts(), tf.int32)
    if order == "none":
        zeros = tf.zeros_like(lengths)
        return SentencePairs(starts, lengths, starts, zeros, zeros), zeros > 0
    split = draw_split(
        lengths,
        chunks["sentence_starts"],
        settings.max_seq_length,
        fold_in(seed, 0),
    )
    has_order = split < lengths

    def draws(number: int) -> tf.Tensor:
        return tf.random.stateless_uniform(
            tf.shape(lengths), fold_in(seed, number), alg="philox"
        )

    is_changed = has_order & (draws(1) < 0.5)
    # Start and length of both segments.
    a, b = (starts, split), (starts + split, lengths - split)
    if order == "sop":
        a, b = _where(is_changed, b, a), _where(is_changed, a, b)
    else:
        partners, found = draw_partners(
            TensorOps(), b[1], chunks["document"], is_changed, draws(2)
        )
        random_b = tuple(tf.gather(each, partners) for each in b)
        is_changed &= found & ~_equal_texts(
            tokens.flat_values, a, random_b, settings.max_seq_length
        )
        b = _where(is_changed, random_b, b)
    return SentencePairs(*a, *b, tf.cast(is_changed, tf.int32)), has_order


_Slices = tuple[tf.Tensor, tf.Tensor]  # starts and lengths, int32 `[rows]`


def _where(condition: tf.Tensor, first: _Slices, other: _Slices) -> _Slices:
    """Returns the slices of `first` where `condition`, else of `other`."""
    return (
        tf.where(condition, first[0], other[0]),
        tf.where(condition, first[1], other[1]),
    )


def _equal_texts(
    tokens: tf.Tensor, first: _Slices, other: _Slices, width: int
) -> tf.Tensor:
    """Returns bool `[rows]`: whether slices of tokens are equal."""
    column = tf.range(width)

    def text(slices: _Slices) -> tf.Tensor:
        starts, lengths = (values[:, None] for values in slices)
        inside = column < lengths
        ids = tf.gather(tokens, tf.where(inside, starts + column, 0))
        return tf.where(inside, ids, -1)

    return tf.reduce_all(text(first) == text(other), axis=1)


def draw_split(
    lengths: tf.Tensor,
    sentence_starts: tf.RaggedTensor,
    max_seq_length: int,
    seed: tf.Tensor,
) -> tf.Tensor:
    """Draws the boundaries that split chunks into two segments.

    Args:
      lengths: int32 `[rows]`, number of tokens of the chunks.
      sentence_starts: int64 `[rows, (sentences)]`, boundaries in the chunks;
        see `chunks.Chunks.boundaries`.
      max_seq_length: upper bound of the boundaries.
      seed: int64 `[2]`, random seed.

    Returns:
      int32 `[rows]`, the length of the first segment; that of the chunk if it
      has no boundary.
    """
    rows, columns = sentence_starts.value_rowids(), sentence_starts.flat_values
    shape = tf.stack([tf.size(lengths), max_seq_length])
    boundaries = tf.scatter_nd(
        tf.stack([rows, columns], axis=1),
        tf.ones_like(columns),
        tf.cast(shape, tf.int64),
    )
    allowed = boundaries > 0
    keys = tf.random.stateless_uniform(shape, seed, alg="philox")
    drawn = tf.argmax(tf.where(allowed, keys, -1.0), 1, output_type=tf.int32)
    return tf.where(tf.reduce_any(allowed, axis=1), drawn, lengths)


class HeldoutMasker:
    """Makes masked records, in Google's format, of the text of blocks.

    Segments and masks are drawn as in training.
    """

    def __init__(self, config: PretrainingDataConfig):
        self._seed = config.seed
        self._settings = ExampleSettings(
            VocabularyTable.from_tokenizer(
                config.tokenizer, config.word_starts
            ),
            config.max_seq_length,
            config.sentence_order,
            config,
        )

    def __call__(self, block: BlockRecords) -> BlockRecords:
        """Replaces the `unmasked` text of a block, and updates its statistics.

        Draws depend on the seed, the shard and the number of the block only.
        """
        found = collections.Counter(label_1=0, input_tokens=0, predictions=0)
        label_counts = np.zeros_like(block.label_counts)
        shards = []
        for shard, chunks in enumerate(block.unmasked):
            records = []
            if len(chunks["tokens"]):
                features = self._mask(chunks, block.index, shard)
                records = serialize_examples(features)
                is_label = features["masked_lm_weights"] > 0
                found.update(
                    label_1=int(features["next_sentence_labels"].sum()),
                    input_tokens=int(features["input_mask"].sum()),
                    predictions=int(is_label.sum()),
                )
                label_counts += np.bincount(
                    features["masked_lm_ids"][is_label],
                    minlength=len(label_counts),
                )
            shards.append(join_frames(frame_records(records)))
        return dataclasses.replace(
            block,
            counts=collections.Counter({**block.counts, **found}),
            label_counts=label_counts,
            shards=shards,
            unmasked=[],
        )

    def _mask(
        self, chunks: Mapping[str, Ragged], block: int, shard: int
    ) -> dict[str, np.ndarray]:
        """Returns the masked features under Google's names."""
        seed = tf.constant([self._seed, shard], tf.int64)
        seed = fold_in(seed, block)
        tensors = {
            name: tf.RaggedTensor.from_row_splits(
                feature.values.astype(np.int64), feature.splits
            )
            for name, feature in chunks.items()
        }
        tensors["document"] = tensors["document"].flat_values
        examples = mask_chunks(tensors, self._settings, seed)
        features = {
            feature: examples[name].numpy()
            for name, feature in FEATURE_OF_INPUT.items()
        }
        return features | {
            "token_boundary": examples["token_boundary"].numpy(),
            "next_sentence_labels": features["next_sentence_labels"][:, None],
        }
