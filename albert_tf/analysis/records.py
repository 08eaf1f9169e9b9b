"""Statistics of pretraining records."""

from __future__ import annotations

import collections
import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from albert_tf.data.data_config import WordStarts
from albert_tf.data.records import Records
from albert_tf.data.tokenized_documents import VocabularyTable
from albert_tf.errors import InputError
from albert_tf.text.base_tokenizer import Tokenizer

_Counts = collections.Counter[int]
_HISTOGRAMS = (
    *("lengths", "sequences", "sequence_lengths"),
    *("predictions", "span_tokens"),
)

# Maximum size of a batch.
_BATCH_RECORDS = 1024
_BATCH_TOKENS = 1 << 20


@dataclasses.dataclass(frozen=True)
class MaskedExample:
    """One sequence of a record as input of a model, without padding.

    Attributes:
      ids: int32 `[tokens]`, after masking.
      original: int32 `[tokens]`, before masking.
      is_masked: bool `[tokens]`, whether the token is predicted.
      label: 1 if the second segment is swapped or random, else 0; None for a
        single segment.
    """

    ids: np.ndarray
    original: np.ndarray
    is_masked: np.ndarray
    label: int | None


@dataclasses.dataclass
class RecordStatistics:
    """Statistics of pretraining records, to which batches are added.

    A span is a sequence of consecutive predictions, so two adjacent n-grams are
    one span. Histograms are int64 arrays with the count of each length.

    Attributes:
      num_records: number of records in the files.
      max_seq_length: tokens per record, including padding.
      pair_task: task of segment pairs: "sop", "nsp" or "none".
      kept_fraction: share of the text's tokens that the records contain,
        according to the manifests; None if unknown.
      tokenizer: tokenizer of the records; None if unknown.
      num_examples: maximum number of `examples`.
      word_starts: which pieces start a word; see `starts_word`.
      lengths: histogram of tokens per record, including special tokens.
      sequences: histogram of sequences per record.
      sequence_lengths: histogram of tokens per sequence.
      predictions: histogram of predictions per record.
      span_tokens: histogram of tokens per span.
      span_words: histogram of words per span; None without a tokenizer.
      labels: numbers of pairs with sentence-order label 0 and 1.
      kept: number of predictions whose token was not replaced.
      replaced: id -> number of predictions whose token it replaced.
      text_counts: id -> occurrences before masking, without padding, `[CLS]`
        and `[SEP]` (which are included without a tokenizer).
      label_counts: id -> occurrences as the label of a prediction.
      examples: the first sequences.
    """

    num_records: int
    max_seq_length: int
    pair_task: str
    kept_fraction: float | None
    tokenizer: Tokenizer | None = dataclasses.field(repr=False)
    num_examples: int
    word_starts: WordStarts = "google"
    lengths: np.ndarray = dataclasses.field(init=False)
    sequences: np.ndarray = dataclasses.field(init=False)
    sequence_lengths: np.ndarray = dataclasses.field(init=False)
    predictions: np.ndarray = dataclasses.field(init=False)
    span_tokens: np.ndarray = dataclasses.field(init=False)
    span_words: np.ndarray | None = dataclasses.field(init=False, default=None)
    labels: np.ndarray = dataclasses.field(init=False)
    kept: int = 0
    replaced: _Counts = dataclasses.field(default_factory=_Counts)
    text_counts: _Counts = dataclasses.field(default_factory=_Counts)
    label_counts: _Counts = dataclasses.field(default_factory=_Counts)
    examples: list[MaskedExample] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        size = self.max_seq_length + 1
        for name in _HISTOGRAMS:
            setattr(self, name, np.zeros(size, np.int64))
        self.labels = np.zeros(2, np.int64)
        self._table = None
        if self.tokenizer is not None:
            self.span_words = np.zeros(size, np.int64)
            self._table = VocabularyTable.from_tokenizer(
                self.tokenizer, self.word_starts
            )

    @property
    def num_measured(self) -> int:
        """Number of records that were counted, from the first."""
        return int(self.lengths.sum())

    @property
    def padding_fraction(self) -> float:
        """Share of positions that are padding."""
        return 1 - total_length(self.lengths) / (
            self.num_measured * self.max_seq_length
        )

    @property
    def masking_rate(self) -> float:
        """Predictions per token, special tokens included."""
        return total_length(self.predictions) / total_length(self.lengths)

    @property
    def mask_id(self) -> int | None:
        """Id of `[MASK]`; without a tokenizer, the most common replacement."""
        if self.tokenizer is not None:
            return self.tokenizer.mask_id
        counts = collections.Counter(self.replaced)
        return counts.most_common(1)[0][0] if counts else None

    @property
    def replacement_shares(self) -> dict[str, float]:
        """Shares of predictions that are `[MASK]`, kept, and a random token.

        Empty if there are no predictions.
        """
        total = self.kept + sum(self.replaced.values())
        if not total:
            return {}
        mask_id = self.mask_id
        masked = 0 if mask_id is None else self.replaced.get(mask_id, 0)
        others = total - masked - self.kept
        return {
            "[MASK]": masked / total,
            "kept": self.kept / total,
            "random": others / total,
        }

    @property
    def swapped_fraction(self) -> float | None:
        """Share of pairs with label 1; None if there are no pairs."""
        if self.pair_task == "none" or not self.labels.any():
            return None
        return float(self.labels[1] / self.labels.sum())

    @property
    def used_pieces(self) -> float | None:
        """Share of the vocabulary that occurs; None without a tokenizer."""
        if self.tokenizer is None:
            return None
        # Padding, [CLS], [SEP] and [MASK] do not occur in text.
        found = self.text_counts.keys() - {self.tokenizer.mask_id}
        return len(found) / (self.tokenizer.vocab_size - 4)

    def add(self, batch: Mapping[str, np.ndarray]) -> None:
        """Adds a batch of a `Records.dataset`."""
        ids, mask = batch["input_word_ids"], batch["input_mask"] != 0
        rows, slots = np.nonzero(batch["masked_lm_weights"])
        columns = batch["masked_lm_positions"][rows, slots]
        original = ids.copy()
        original[rows, columns] = batch["masked_lm_ids"][rows, slots]
        largest = max(int(ids.max()), int(original.max()))
        if self.tokenizer and largest >= self.tokenizer.vocab_size:
            raise InputError(
                f"token id {largest} is not below the "
                f"{self.tokenizer.vocab_size} pieces of the tokenizer; give "
                "the one that the records were made with"
            )
        is_masked = np.zeros_like(mask)
        is_masked[rows, columns] = True
        _count_lengths(self.lengths, mask.sum(1))
        _count_lengths(self.predictions, is_masked.sum(1))
        self._count_spans(original, is_masked)
        # The sequence of its row that each token belongs to, from 1.
        numbers = batch.get("sequence_ids", mask.astype(np.int32))
        sequences = numbers.max(1)
        _count_lengths(self.sequences, sequences)
        row_starts = (numbers.max() + 1) * np.arange(len(numbers))[:, None]
        tokens = np.bincount((row_starts + numbers)[mask])
        _count_lengths(self.sequence_lengths, tokens[tokens > 0])
        labels = batch["sentence_order_labels"].reshape(len(ids), -1)
        is_pair = batch["sentence_order_weights"].reshape(labels.shape) > 0
        self.labels += np.bincount(labels[is_pair], minlength=2)
        is_text = mask
        if (table := self._table) is not None:
            special = [table.pad_id, table.cls_id, table.sep_id]
            is_text = mask & ~np.isin(original, special)
        _count_ids(self.text_counts, original[is_text])
        _count_ids(self.label_counts, original[is_masked])
        changed = is_masked & (ids != original)
        _count_ids(self.replaced, ids[changed])
        self.kept += int(is_masked.sum() - changed.sum())
        present = np.arange(labels.shape[1]) < sequences[:, None]
        for row, number in zip(*np.nonzero(present), strict=True):
            if len(self.examples) == self.num_examples:
                break
            where = numbers[row] == number + 1
            self.examples.append(
                MaskedExample(
                    ids[row, where],
                    original[row, where],
                    is_masked[row, where],
                    int(labels[row, number]) if is_pair[row, number] else None,
                )
            )

    def _count_spans(self, original: np.ndarray, is_masked: np.ndarray) -> None:
        begins = is_masked.copy()
        begins[:, 1:] &= ~is_masked[:, :-1]
        span = np.cumsum(begins)[is_masked.ravel()] - 1
        _count_lengths(self.span_tokens, np.bincount(span))
        if self._table is not None and self.span_words is not None:
            # A span that begins inside a word (as truncation permits) counts
            # that word.
            words = begins | self._table.word_starts[original]
            counts = np.bincount(span, weights=words[is_masked])
            _count_lengths(self.span_words, counts.astype(np.int64))


def analyze_records(
    records: Records,
    *,
    max_records: int = 100_000,
    num_examples: int = 10,
    tokenizer: Tokenizer | None = None,
) -> RecordStatistics:
    """Computes statistics of pretraining records.

    The records are read and masked once, as in training. Those of a mixture are
    drawn by the weights of its corpora, some of them more than once. Memory use
    does not depend on their number.

    Args:
      records: result of `open_records`; its split is read.
      max_records: number of records to read, from the first; 0 for all.
      num_examples: number of sequences to return as `examples`.
      tokenizer: tokenizer of records without a manifest, and only of these.
        Without one, there are no spans in words and no names of pieces.
    """
    if tokenizer is not None and records.manifest is not None:
        raise InputError(
            "these records have their own tokenizer; give one only for records "
            "without a manifest"
        )
    if tokenizer is None:
        tokenizer = records.tokenizer
    files = records.files[records.split]
    total = sum(file.num_records for file in files)
    statistics = RecordStatistics(
        total,
        records.max_seq_length,
        records.pair_task,
        _kept_fraction(records),
        tokenizer,
        num_examples,
        records.word_starts,
    )
    left = min(max_records or total, total)
    batch_size = min(
        _BATCH_RECORDS, max(1, _BATCH_TOKENS // records.max_seq_length)
    )
    with records.explained_errors():
        mixed = bool(records.corpora) and records.split == "train"
        dataset = records.dataset(batch_size, training=mixed)
        for batch in dataset.as_numpy_iterator():
            statistics.add({name: rows[:left] for name, rows in batch.items()})
            left -= len(batch["input_mask"])
            if left <= 0:
                break
    return statistics


def _count_lengths(histogram: np.ndarray, lengths: np.ndarray) -> None:
    histogram += np.bincount(lengths, minlength=len(histogram))


def _count_ids(counter: _Counts, ids: np.ndarray) -> None:
    values, counts = np.unique(ids, return_counts=True)
    counter.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))


def _kept_fraction(records: Records) -> float | None:
    """Returns the share of text in records according to their manifests."""
    kept, tokens = 0.0, 0
    seen: list[dict[str, Any]] = []
    for file in records.files[records.split]:
        if not file.manifest:
            return None
        name = os.path.basename(file.path)
        split = next(
            x
            for x in file.manifest["splits"].values()
            if any(f["name"] == name for f in x["files"])
        )
        if split not in seen:
            seen.append(split)
            num_tokens = split["counts"].get("tokens", 0)
            kept += split["kept_fraction"] * num_tokens
            tokens += num_tokens
    return kept / tokens if tokens else None


def total_length(histogram: np.ndarray) -> int:
    """Returns the sum of the lengths in a histogram."""
    return int(np.arange(len(histogram)) @ histogram)
