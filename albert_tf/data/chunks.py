"""Chunks: consecutive tokens of a document, and rows that they fill."""

from __future__ import annotations

import bisect
import dataclasses
import functools
import itertools

import numpy as np

from albert_tf.data.tfrecords import Ragged
from albert_tf.data.tokenized_documents import (
    TokenizedDocuments,
    VocabularyTable,
)

# [CLS] A [SEP] B [SEP]
NUM_SPECIAL_TOKENS = 3


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

    @functools.cached_property
    def boundaries(self) -> Ragged:
        """Offsets in each chunk at which it can be split into A and B.

        They are the starts of its sentences, except for the first. A chunk that
        starts or ends inside a sentence has none, as the segment that lacks the
        sentence's start or end would reveal the order. Nor is it split into two
        identical halves, which have no order.
        """
        sentences = self.sentence_starts
        first = np.searchsorted(sentences, self.starts, "right")
        last = np.searchsorted(sentences, self.ends, "left")
        is_whole = sentences[last] == self.ends
        is_whole &= sentences[first - 1] == self.starts
        found = Ragged.from_slices(
            sentences, first, np.where(is_whole, np.maximum(first, last), first)
        )
        rows = found.row_of_value
        offsets = found.values - self.starts[rows]
        lengths = (self.ends - self.starts)[rows]
        keep = np.ones(len(offsets), bool)
        for index in np.flatnonzero(2 * offsets == lengths):
            middle, size = found.values[index], offsets[index]
            keep[index] = not np.array_equal(
                self.tokens[middle - size : middle],
                self.tokens[middle : middle + size],
            )
        counts = np.bincount(rows[keep], minlength=len(self))
        return Ragged(offsets[keep], np.append(0, np.cumsum(counts)))

    def features(self) -> dict[str, Ragged]:
        """Returns the features of one record per chunk.

        `tokens`: its ids. `sentence_starts`: its `boundaries`. `document`: the
        number of its document.
        """
        return {
            "tokens": Ragged.from_slices(self.tokens, self.starts, self.ends),
            "sentence_starts": self.boundaries,
            "document": Ragged(self.documents, np.arange(len(self) + 1)),
        }


@dataclasses.dataclass(frozen=True)
class Cuts:
    """Offsets at which chunks of pairs may start or end.

    They are the starts of sentences, and cuts between words in sentences that
    are longer than a chunk. A piece of such a sentence is a chunk of its own.

    Attributes:
      offsets: ascending offsets into the tokens; the last one is their number.
      inside: ascending indices of the offsets inside a sentence.
    """

    offsets: list[int]
    inside: list[int]

    @classmethod
    def of_documents(
        cls,
        documents: TokenizedDocuments,
        table: VocabularyTable,
        max_tokens: int,
    ) -> Cuts:
        """Returns the cuts for chunks of at most `max_tokens`."""
        starts = documents.sentence_starts
        word_starts = find_word_starts(
            documents.tokens, documents.document_offsets, table
        )
        inside = []
        long = np.flatnonzero(np.diff(starts) > max_tokens)
        for start, end in zip(starts[long], starts[long + 1], strict=True):
            while end - start > max_tokens:
                word = word_starts[start + max_tokens]
                start = int(word if word > start else start + max_tokens)
                inside.append(start)
        offsets = np.union1d(starts, np.array(inside, np.int64))
        indices = np.searchsorted(offsets, inside)
        return cls(offsets.tolist(), indices.tolist())

    def mirrored(self) -> Cuts:
        """Returns the cuts of the reversed text, whose offsets are negative."""
        last = len(self.offsets) - 1
        return Cuts(
            [-offset for offset in reversed(self.offsets)],
            [last - index for index in reversed(self.inside)],
        )

    def ends(self, first: int, last: int, max_tokens: int) -> range:
        """Returns the indices of the cuts at which a chunk may end.

        It starts at the cut `first`, and ends at the cut `last` at the latest.
        """
        stop = bisect.bisect_right(
            self.offsets, self.offsets[first] + max_tokens, hi=last + 1
        )
        piece = bisect.bisect_left(self.inside, first)
        if piece < len(self.inside):
            stop = min(stop, max(self.inside[piece], first + 2))
        return range(first + 1, stop)


def draw_direction(
    rng: np.random.Generator,
    directions: tuple[Cuts, Cuts],
    first: int,
    last: int,
) -> tuple[Cuts, int, int]:
    """Draws whether the text between two cuts is cut from its end.

    Returns:
      One of `directions`, the cuts and the mirrored cuts, and in it the indices
      of the cuts at which the text starts and ends.
    """
    forward, mirrored = directions
    if rng.random() < 0.5:
        size = len(forward.offsets) - 1
        return mirrored, size - last, size - first
    return forward, first, last


def cut_chunks(
    documents: TokenizedDocuments,
    table: VocabularyTable,
    rng: np.random.Generator,
    *,
    max_tokens: int,
    short_seq_prob: float = 0.0,
) -> Chunks:
    """Cuts documents into chunks for pairs, in order, with all of their tokens.

    The target length of a chunk is `max_tokens` or, with probability
    `short_seq_prob`, drawn uniformly from [2, max_tokens]. A chunk has whole
    sentences of a document, as the punctuation at a cut inside a sentence would
    reveal the order of the segments: as many as the target permits, but two, or
    at least one, even if they exceed it. Only a sentence longer than
    `max_tokens` is cut, at the start of a word or inside a longer word.

    Half of the documents are cut from the end: the sentence that does not fit
    into a chunk and begins the next one is long, so that otherwise the length
    of the first sentence would reveal the order.
    """
    cuts = Cuts.of_documents(documents, table, max_tokens)
    directions = (cuts, cuts.mirrored())
    borders = np.searchsorted(cuts.offsets, documents.document_offsets)
    chunks: list[tuple[int, int, int]] = []
    for number, (begin, end) in enumerate(
        itertools.pairwise(borders.tolist()), documents.first_number
    ):
        cuts, first, last = draw_direction(rng, directions, begin, end)
        found = []
        while first < last:
            target = _draw_target(rng, max_tokens, short_seq_prob)
            ends = cuts.ends(first, last, max_tokens)
            start = cuts.offsets[first]
            fitting = bisect.bisect_right(
                cuts.offsets, start + target, ends.start, ends.stop
            )
            first = max(fitting - 1, ends[:2][-1])
            found.append((*slice_of(start, cuts.offsets[first]), number))
        chunks += sorted(found)
    starts, ends, numbers = np.array(chunks, np.int64).reshape(-1, 3).T
    return Chunks(
        documents.tokens, starts, ends, numbers, documents.sentence_starts
    )


def slice_of(start: int, end: int) -> tuple[int, int]:
    """Returns a slice of the text.

    Offsets of the mirrored text, which are negative, are mapped to the text's.
    """
    return (start, end) if end > 0 else (-end, -start)


def cut_joined(
    documents: TokenizedDocuments,
    table: VocabularyTable,
    rng: np.random.Generator,
    *,
    max_tokens: int,
    short_seq_prob: float = 0.0,
) -> Chunks:
    """Cuts documents, joined by [SEP], into chunks of a single segment.

    Chunks have the target length of `cut_chunks`, or end at the start of the
    word before it, and may cross the boundaries of sentences and documents
    (RoBERTa's FULL-SENTENCES; Liu et al. 2019, section 4.2).
    """
    inner = documents.document_offsets[1:-1]
    tokens = np.insert(documents.tokens, inner, table.sep_id)
    # Each separator before a sentence moves it by one token.
    sentence_starts = documents.sentence_starts + np.searchsorted(
        inner, documents.sentence_starts, "right"
    )
    word_start = find_word_starts(tokens, np.unique([0, len(tokens)]), table)
    borders = [0]
    while (start := borders[-1]) < len(tokens):
        end = start + _draw_target(rng, max_tokens, short_seq_prob)
        end = min(end, len(tokens))
        if end < len(tokens) and word_start[end] > start:
            end = int(word_start[end])
        borders.append(end)
    edges = np.array(borders, np.int64)
    numbers = np.full(len(edges) - 1, documents.first_number)
    return Chunks(tokens, edges[:-1], edges[1:], numbers, sentence_starts)


def _draw_target(
    rng: np.random.Generator, max_tokens: int, short_seq_prob: float
) -> int:
    if short_seq_prob and rng.random() < short_seq_prob:
        return 2 + int(rng.random() * (max_tokens - 1))
    return max_tokens


def find_word_starts(
    tokens: np.ndarray, boundaries: np.ndarray, table: VocabularyTable
) -> np.ndarray:
    """Finds the start of the word that each token belongs to.

    `boundaries` are the offsets at which documents, and therefore words, start,
    and the number of tokens.

    Returns:
      int64 `[tokens + 1]`, offsets into `tokens`; the last is their number.
    """
    begins_word = table.word_starts[tokens]
    begins_word[boundaries[:-1]] = True
    starts = np.where(begins_word, np.arange(len(tokens)), 0)
    return np.append(np.maximum.accumulate(starts), len(tokens))
