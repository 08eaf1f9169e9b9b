"""Chunks: consecutive pieces of documents that fit a record."""

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
    """Chunks as slices of one array of tokens.

    Attributes:
      tokens: int32 `[tokens]`.
      starts, ends: int64 `[chunks]`, slices of `tokens`.
      documents: int64 `[chunks]`, number of the document that each begins in.
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
        """Returns the features of a record for each chunk.

        `tokens`: its ids. `sentence_starts`: where its sentences begin, but for
        the first. `document`: the number of its document.
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
    """Cuts documents into chunks that together hold every token.

    A chunk takes what follows up to `max_tokens` tokens or, with probability
    `short_seq_prob`, a number drawn from [2, that], and ends with its document.

    With `pairs` it takes whole sentences: if it were cut inside of one, the
    punctuation at the ends of its segments would tell their order. Two
    sentences are taken, or one, even if they are longer than the number drawn.
    Only a sentence longer than `max_tokens` is cut, as are chunks without
    `pairs`: at a word, or inside of one that is longer than a chunk.

    Args:
      documents: documents to cut.
      table: special ids and word starts of the vocabulary.
      rng: source of all randomness.
      max_tokens: most tokens of a chunk.
      short_seq_prob: share of shorter chunks.
      pairs: chunks are to be split into two different segments, so those of a
        single token or of one token twice are dropped. Without, a chunk may
        reach over ends of documents, which [SEP] marks (RoBERTa's
        FULL-SENTENCES; Liu et al. 2019, section 4.2).

    Returns:
      The chunks in document order, and counts: `chunks`, `dropped_chunks` and
      `kept_tokens`, the tokens of text in all chunks.
    """
    tokens, sentence_starts = documents.tokens, documents.sentence_starts
    boundaries = sentence_starts[documents.document_starts]
    if not pairs:
        inner = boundaries[1:-1]
        tokens = np.insert(tokens, inner, table.sep_id)
        # A sentence begins behind the separators before it.
        sentence_starts = sentence_starts + np.searchsorted(
            inner, sentence_starts, "right"
        )
        boundaries = np.unique([0, len(tokens)])  # One, if there is no token.
    word_start = starts_of_words(tokens, boundaries, table)
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
            if pairs and is_without_order(tokens[start:end]):
                counts["dropped_chunks"] += 1
            else:
                chunks.append((start, end, documents.first_number + document))
            start = end
    starts, ends, numbers = np.array(chunks, np.int64).reshape(-1, 3).T
    result = Chunks(tokens, starts, ends, numbers, sentence_starts)
    is_text = np.append(0, np.cumsum(tokens != table.sep_id))
    counts["kept_tokens"] = int((is_text[ends] - is_text[starts]).sum())
    return result, counts


def is_without_order(tokens: np.ndarray) -> bool:
    """Returns whether tokens cannot be split into two different segments."""
    return len(tokens) == 1 or (len(tokens) == 2 and tokens[0] == tokens[1])


def starts_of_words(
    tokens: np.ndarray, boundaries: np.ndarray, table: VocabularyTable
) -> np.ndarray:
    """Returns of each token, and of the end, where its word starts.

    Args:
      tokens: int32 `[tokens]`.
      boundaries: offsets of documents, and the end; words begin there.
      table: word starts of the vocabulary.

    Returns:
      int64 `[tokens + 1]`; the end is the start of a word.
    """
    begins_word = table.word_starts[tokens]
    begins_word[boundaries[:-1]] = True
    starts = np.where(begins_word, np.arange(len(tokens)), 0)
    return np.append(np.maximum.accumulate(starts), len(tokens))


def _end_of_sentences(
    starts: Sequence[int], stop: int, start: int, most: int, limit: int
) -> int | None:
    """Returns the end of whole sentences from `start` on.

    Args:
      starts: starts of the sentences, and the end of the last.
      stop: index in `starts` of the end of the document.
      start: token that the chunk begins with.
      most: tokens that were drawn.
      limit: most tokens of two sentences, or one.

    Returns:
      None if the first sentence has more than `limit` tokens.
    """
    first = bisect.bisect_right(starts, start, hi=stop + 1)
    end = bisect.bisect_right(starts, start + most, hi=stop + 1) - 1
    for least in (min(first + 1, stop), first):
        if end < least and starts[least] <= start + limit:
            end = least
    return starts[end] if end >= first else None
