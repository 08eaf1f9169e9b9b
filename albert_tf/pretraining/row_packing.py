"""Rows that hold several chunks of text each, filled by best fit."""

from __future__ import annotations

import bisect
import collections
import dataclasses
import heapq
import itertools
from collections.abc import Callable, Sequence

import numpy as np

from albert_tf.pretraining.chunks import (
    Chunks,
    is_without_order,
    starts_of_words,
)
from albert_tf.pretraining.record_writer import Ragged
from albert_tf.pretraining.tokenized_documents import (
    TokenizedDocuments,
    VocabularyTable,
)

# [CLS] A [SEP] B [SEP]
SPECIAL_TOKENS = 3

# Documents are read at as many places as there are pieces of so many rows in
# them: the more places, the more lengths there are to choose from.
_ROWS_OF_STREAM = 8

# A row counts as full with this share of it left, so that long sequences are
# preferred to fuller rows; and so much room is left for another sequence, or
# text for a later row, if there is a choice.
_SLACK = 1 / 64
_LEAST_REST = 1 / 8


@dataclasses.dataclass(frozen=True)
class ChunkRows:
    """Rows of chunks.

    Attributes:
      chunks: the chunks of all rows, one row's after the other's.
      row_starts: number of the first chunk of each row, and that of all chunks.
    """

    chunks: Chunks
    row_starts: list[int]

    def __len__(self) -> int:
        return len(self.row_starts) - 1

    def features(self) -> dict[str, Ragged]:
        """Returns the features of a record for each row.

        `tokens`: the ids of its chunks, without special tokens. `chunk_starts`:
        where the chunks begin in them, but for the first. `sentence_starts`:
        where sentences begin inside of chunks. `documents`: the number of the
        document of each chunk.
        """
        chunks = self.chunks.features()
        tokens, sentences = chunks["tokens"], chunks["sentence_starts"]
        rows = np.asarray(self.row_starts)
        row_of_chunk = np.repeat(np.arange(len(self)), np.diff(rows))
        row_starts = tokens.splits[rows]
        # Of each chunk, in its row.
        offsets = tokens.splits[:-1] - row_starts[row_of_chunk]
        is_first = np.isin(np.arange(len(offsets)), rows)
        return {
            "tokens": Ragged(tokens.values, row_starts),
            "chunk_starts": Ragged(
                offsets[~is_first], rows - np.arange(len(rows))
            ),
            "sentence_starts": Ragged(
                sentences.values + offsets[sentences.row_of_value],
                sentences.splits[rows],
            ),
            "documents": Ragged(self.chunks.documents, rows),
        }


def pack_chunks(
    documents: TokenizedDocuments,
    table: VocabularyTable,
    rng: np.random.Generator,
    *,
    max_seq_length: int,
    max_sequences: int,
    short_seq_prob: float = 0.0,
) -> tuple[ChunkRows, collections.Counter[str]]:
    """Cuts documents into chunks that fill rows, and hold every token.

    Chunks are as in `cut_chunks` with `pairs`: whole sentences of a document,
    two at least where they fit. Where there is a choice of how many, and of
    which text comes next, the row decides: the longest chunk that fills what is
    left of it is taken, or else the longest for which another one fills the
    rest (best fit, of the longest first; see Ding et al. 2024,
    arXiv:2404.10830; Krell et al. 2021, arXiv:2107.02027).

    Args:
      documents: documents to cut.
      table: special ids and word starts of the vocabulary.
      rng: source of all randomness.
      max_seq_length: most tokens of a row, special tokens of each chunk
        included.
      max_sequences: most chunks of a row.
      short_seq_prob: share of rows whose first chunk has at most a number of
        tokens drawn from [2, that of a whole row].

    Returns:
      The rows, and counts: `chunks`, `dropped_chunks` and `kept_tokens`, as of
      `cut_chunks`.
    """
    streams = _Streams(
        documents,
        table,
        max_seq_length - SPECIAL_TOKENS,
        _ROWS_OF_STREAM * max_seq_length,
        int(_LEAST_REST * max_seq_length),
    )
    slack = int(_SLACK * max_seq_length)
    counts: collections.Counter[str] = collections.Counter()
    chunks: list[tuple[int, int, int]] = []
    row_starts = [0]
    while streams.lengths:
        room = streams.most
        if short_seq_prob and rng.random() < short_seq_prob:
            short = 2 + int(rng.random() * (room - 1))
            length = _longest(streams.lengths, short)
        else:
            length = 0
        for number in range(max_sequences):
            last = number == max_sequences - 1
            length = length or _fitting(streams, room, slack, last)
            if not length:
                break
            chunks.append(streams.take(length))
            room -= length + SPECIAL_TOKENS
            length = 0
        row_starts.append(len(chunks))
    starts, ends, numbers = np.array(chunks, np.int64).reshape(-1, 3).T
    counts["kept_tokens"] = int((ends - starts).sum())
    counts["dropped_chunks"] = streams.dropped
    counts["chunks"] = len(chunks) + streams.dropped
    chunk_slices = Chunks(
        documents.tokens, starts, ends, numbers, documents.sentence_starts
    )
    return ChunkRows(chunk_slices, row_starts), counts


def _fitting(streams: _Streams, room: int, slack: int, last: bool) -> int:
    """Returns the length of the chunk to put into a row next, or 0.

    Args:
      streams: the text that is left.
      room: most tokens of the chunk.
      slack: tokens that may be left of a full row.
      last: whether the row may have no further chunk.
    """
    lengths, every = streams.lengths, streams.lengths | streams.single
    for others in (lengths, every):
        length = _longest(others, room)
        if length >= room - slack:
            return length
        # The other one is to be no very short one, if possible.
        for least in () if last else (streams.least_rest, 1):
            length = _longest(lengths, room - SPECIAL_TOKENS - least)
            while length:
                rest = room - SPECIAL_TOKENS - length
                if _longest(others, rest) >= max(1, rest - slack):
                    return length
                length = _longest(lengths, length - 1)
    return _longest(lengths, room) or _longest(every, room)


def _longest(lengths: int, most: int) -> int:
    """Returns the greatest number up to `most` in a set of bits, or 0."""
    return max(0, (lengths & ((2 << max(0, most)) - 1)).bit_length() - 1)


class _Streams:
    """Text of documents that is read at several places, in turn.

    Attributes:
      most: most tokens of a chunk.
      least_rest: least tokens that a chunk leaves of a stream, if possible.
      dropped: chunks without an order, which are left out.
    """

    def __init__(
        self,
        documents: TokenizedDocuments,
        table: VocabularyTable,
        most: int,
        stream_tokens: int,
        least_rest: int,
    ):
        self.most = most
        self.least_rest = least_rest
        self.dropped = 0
        self._tokens = documents.tokens
        # Where a chunk may begin or end.
        self._cuts = _cuts(documents, table, most)
        self._numbers: list[int] = []  # of each stream its document's
        self._next: list[int] = []  # the cut that it goes on at
        self._last: list[int] = []  # the cut that it ends at
        self._offers = _Offers(most)
        self._single_offers = _Offers(most)
        boundaries = documents.sentence_starts[documents.document_starts]
        for number, (start, end) in enumerate(
            itertools.pairwise(np.searchsorted(self._cuts, boundaries).tolist())
        ):
            offsets = self._cuts[start : end + 1]
            parts = max(1, (offsets[-1] - offsets[0]) // stream_tokens)
            wanted = np.linspace(offsets[0], offsets[-1], parts + 1)
            places = start + np.unique(np.searchsorted(offsets, wanted))
            for first, last in itertools.pairwise(places.tolist()):
                self._numbers.append(documents.first_number + number)
                self._next.append(first)
                self._last.append(last)
                self._offer(len(self._next) - 1)

    @property
    def lengths(self) -> int:
        """Lengths that the next chunk of a stream can have, a set of bits."""
        return self._offers.lengths

    @property
    def single(self) -> int:
        """Lengths of single sentences where more of them would fit, too."""
        return self._single_offers.lengths

    def take(self, length: int) -> tuple[int, int, int]:
        """Takes a chunk of one of `lengths` or `single`.

        Of the streams that have one, from that with the most text left, so that
        there are many of them for long.

        Returns:
          Start and end of the chunk, and the number of its document.
        """
        preferred = self.lengths >> length & 1
        offers = self._offers if preferred else self._single_offers
        stream = offers.best(length, self._left)
        choices, single = self._choices(stream)
        self._offers.withdraw(choices)
        self._single_offers.withdraw(single)
        start = self._cuts[self._next[stream]]
        self._next[stream] = bisect.bisect_left(self._cuts, start + length)
        self._offer(stream)
        return start, start + length, self._numbers[stream]

    def _left(self, stream: int) -> int:
        return self._cuts[self._last[stream]] - self._cuts[self._next[stream]]

    def _offer(self, stream: int) -> None:
        """Offers the next chunk of a stream, in the lengths it can have."""
        choices, single = self._choices(stream)
        while not choices and self._next[stream] < self._last[stream]:
            self._next[stream] += 1
            self.dropped += 1
            choices, single = self._choices(stream)
        self._offers.add(choices, stream, self._left(stream))
        self._single_offers.add(single, stream, self._left(stream))

    def _choices(self, stream: int) -> tuple[list[int], list[int]]:
        """Returns the lengths that the next chunk of a stream can have.

        Returns:
          Lengths of two sentences or more, which leave no short rest, or the
          greatest possible; and that of one sentence, if it is another.
        """
        first, last = self._next[stream], self._last[stream]
        start, end = self._cuts[first], self._cuts[last]
        ends = self._cuts[
            first + 1 : bisect.bisect_right(
                self._cuts, start + self.most, hi=last + 1
            )
        ]
        good = [x for x in ends[1:] if not 0 < end - x < self.least_rest]
        choices, single = (
            [
                x - start
                for x in each
                if x - start > 2 or not is_without_order(self._tokens[start:x])
            ]
            for each in (good or ends[-1:], ends[:1])
        )
        return choices, [n for n in single if choices and n not in choices]


class _Offers:
    """Streams by the lengths that their next chunks can have.

    Attributes:
      lengths: the lengths that there are, a set of bits.
    """

    def __init__(self, most: int):
        self.lengths = 0
        # Least first. Those that were withdrawn are left until they are first.
        self._heaps: list[list[tuple[int, int]]] = [[] for _ in range(most + 1)]
        self._counts = [0] * (most + 1)

    def add(self, lengths: Sequence[int], stream: int, left: int) -> None:
        """Adds a stream that has `left` tokens."""
        for length in lengths:
            heapq.heappush(self._heaps[length], (-left, stream))
            self._counts[length] += 1
            self.lengths |= 1 << length

    def withdraw(self, lengths: Sequence[int]) -> None:
        """Removes a stream, which goes on to have fewer tokens."""
        for length in lengths:
            self._counts[length] -= 1
            if not self._counts[length]:
                self.lengths ^= 1 << length

    def best(self, length: int, tokens_left: Callable[[int], int]) -> int:
        """Returns the stream with most tokens of those with a length."""
        heap = self._heaps[length]
        while tokens_left(heap[0][1]) != -heap[0][0]:
            heapq.heappop(heap)
        return heap[0][1]


def _cuts(
    documents: TokenizedDocuments, table: VocabularyTable, most: int
) -> list[int]:
    """Returns where sentences begin, and pieces of those of > `most` tokens."""
    starts = documents.sentence_starts
    long = np.flatnonzero(np.diff(starts) > most)
    if not len(long):
        return starts.tolist()
    word_starts = starts_of_words(
        documents.tokens,
        starts[documents.document_starts],
        table,
    )
    cuts = set(starts.tolist())
    for start, end in zip(starts[long], starts[long + 1], strict=True):
        while end - start > most:
            word = word_starts[start + most]
            start = int(word if word > start else start + most)
            cuts.add(start)
    return sorted(cuts)
