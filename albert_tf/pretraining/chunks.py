"""Chunks: consecutive tokens of a document that fit into a record."""

from __future__ import annotations

import bisect
import collections
import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from albert_tf.pretraining.record_writer import Ragged
from albert_tf.pretraining.tokenized_documents import (
    TokenizedDocuments,
    VocabularyTable,
)


@dataclasses.dataclass(frozen=True)
class Chunks:
    """Chunks as slices of an array of tokens.

    Attributes:
      tokens: int32 `[tokens]`.
      starts, ends: int64 `[chunks]`, slices of `tokens`.
      documents: int64 `[chunks]`, number of the document in which each chunk
        starts.
      sentence_starts: int64 `[sentences + 1]`, ascending offsets into `tokens`.
    """

    tokens: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    documents: np.ndarray
    sentence_starts: np.ndarray

    def __len__(self) -> int:
        return len(self.starts)

    def features(self) -> dict[str, Ragged]:
        """Returns the features of one record per chunk.

        `tokens`: its ids. `sentence_starts`: offsets of its sentences, except
        for the first. `document`: the number of its document.
        """
        starts = Ragged.from_slices(
            self.sentence_starts,
            np.searchsorted(self.sentence_starts, self.starts, "right"),
            np.searchsorted(self.sentence_starts, self.ends, "left"),
        )
        return {
            "tokens": Ragged.from_slices(self.tokens, self.starts, self.ends),
            "sentence_starts": Ragged(
                starts.values - self.starts[starts.row_of_value], starts.splits
            ),
            "document": Ragged(self.documents, np.arange(len(self) + 1)),
        }


def cut_chunks(
    documents: TokenizedDocuments,
    table: VocabularyTable,
    rng: np.random.Generator,
    *,
    max_tokens: int,
    short_seq_prob: float = 0.0,
    pairs: bool = True,
) -> tuple[Chunks, collections.Counter[str]]:
    """Cuts documents into chunks, so that every token is in a chunk.

    The target length of a chunk is `max_tokens` or, with probability
    `short_seq_prob`, drawn uniformly from [2, max_tokens]. A chunk ends with
    its document at the latest.

    With `pairs`, chunks consist of whole sentences, as the punctuation at a cut
    inside a sentence would reveal the order of the segments. A chunk has two
    sentences, or at least one, even if they exceed the target length. Only a
    sentence longer than `max_tokens` is cut. Such a sentence, and any chunk
    without `pairs`, is cut at the start of a word, or inside a word that is
    longer than a chunk.

    Args:
      documents: documents to cut.
      table: special ids and word starts of the vocabulary.
      rng: source of all randomness.
      max_tokens: maximum number of tokens in a chunk.
      short_seq_prob: share of shorter chunks.
      pairs: whether chunks will be split into two different segments; chunks
        for which this is impossible are dropped. If False, chunks may cross
        document boundaries, which are marked by [SEP] (RoBERTa's
        FULL-SENTENCES; Liu et al. 2019, section 4.2).

    Returns:
      The chunks in document order, and counts: `chunks`, `dropped_chunks` and
      `kept_tokens`, the number of text tokens in all chunks.
    """
    tokens, sentence_starts = documents.tokens, documents.sentence_starts
    boundaries = sentence_starts[documents.document_starts]
    if not pairs:
        inner = boundaries[1:-1]
        tokens = np.insert(tokens, inner, table.sep_id)
        # Each separator before a sentence moves it by one token.
        sentence_starts = sentence_starts + np.searchsorted(
            inner, sentence_starts, "right"
        )
        boundaries = np.unique([0, len(tokens)])  # [0] if there is no token
    word_start = find_word_starts(tokens, boundaries, table)
    sentences = sentence_starts.tolist()
    counts: collections.Counter[str] = collections.Counter()
    chunks: list[tuple[int, int, int]] = []
    for document, (start, document_end) in enumerate(
        itertools.pairwise(boundaries.tolist())
    ):
        while start < document_end:
            target = max_tokens
            if short_seq_prob and rng.random() < short_seq_prob:
                target = 2 + int(rng.random() * (max_tokens - 1))
            end = None
            if pairs:
                stop = int(documents.document_starts[document + 1])
                end = _end_of_sentences(
                    sentences, stop, start, target, max_tokens
                )
            if end is None:
                end = min(start + target, document_end)
                if end < document_end and word_start[end] > start:
                    end = int(word_start[end])
            counts["chunks"] += 1
            if pairs and not is_splittable(tokens[start:end]):
                counts["dropped_chunks"] += 1
            else:
                chunks.append((start, end, documents.first_number + document))
            start = end
    starts, ends, numbers = np.array(chunks, np.int64).reshape(-1, 3).T
    result = Chunks(tokens, starts, ends, numbers, sentence_starts)
    is_text = np.append(0, np.cumsum(tokens != table.sep_id))
    counts["kept_tokens"] = int((is_text[ends] - is_text[starts]).sum())
    return result, counts


def is_splittable(tokens: np.ndarray) -> bool:
    """Returns whether tokens can be split into two different segments."""
    return len(tokens) > 2 or (len(tokens) == 2 and tokens[0] != tokens[1])


def find_word_starts(
    tokens: np.ndarray, boundaries: np.ndarray, table: VocabularyTable
) -> np.ndarray:
    """Finds the start of the word that each token belongs to.

    Args:
      tokens: int32 `[tokens]`.
      boundaries: offsets at which documents, and therefore words, start, and
        the number of tokens.
      table: word starts of the vocabulary.

    Returns:
      int64 `[tokens + 1]`, offsets into `tokens`; the last is their number.
    """
    begins_word = table.word_starts[tokens]
    begins_word[boundaries[:-1]] = True
    starts = np.where(begins_word, np.arange(len(tokens)), 0)
    return np.append(np.maximum.accumulate(starts), len(tokens))


def _end_of_sentences(
    starts: Sequence[int], stop: int, start: int, target: int, limit: int
) -> int | None:
    """Returns the end of a chunk of whole sentences.

    Args:
      starts: offsets of the sentences, and the end of the last one.
      stop: index in `starts` of the end of the document.
      start: offset of the chunk.
      target: target length of the chunk.
      limit: maximum length of the chunk.

    Returns:
      The offset, or None if the first sentence is longer than `limit`.
    """
    first = bisect.bisect_right(starts, start, hi=stop + 1)
    end = bisect.bisect_right(starts, start + target, hi=stop + 1) - 1
    # Exceed the target for two sentences, or else for one.
    for minimum in (min(first + 1, stop), first):
        if end < minimum and starts[minimum] <= start + limit:
            end = minimum
    return starts[end] if end >= first else None
