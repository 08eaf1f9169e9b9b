"""Chunks that are cut to fill rows."""

from __future__ import annotations

import bisect
import dataclasses
import heapq
import itertools
from collections.abc import Callable, Sequence

import numpy as np

from albert_tf.data.chunks import (
    NUM_SPECIAL_TOKENS,
    Chunks,
    Cuts,
    draw_direction,
    slice_of,
)
from albert_tf.data.tfrecords import Ragged
from albert_tf.data.tokenized_documents import (
    TokenizedDocuments,
    VocabularyTable,
)

# A document is read by streams of about this many rows each, in parallel: the
# more streams, the more lengths there are to choose from.
_ROWS_PER_STREAM = 8

# Share of a row that may stay empty, as long sequences are preferred to
# slightly fuller rows.
_SLACK = 1 / 64

# Share of a row that is, if possible, left for another sequence and left of a
# stream, to avoid very short sequences.
_MIN_REST = 1 / 8


@dataclasses.dataclass(frozen=True)
class ChunkRows:
    """Rows of chunks.

    Attributes:
      chunks: the chunks of all rows, in order.
      row_starts: `[rows + 1]`, index of the first chunk of each row, and the
        number of chunks.
    """

    chunks: Chunks
    row_starts: list[int]

    def __len__(self) -> int:
        return len(self.row_starts) - 1

    def features(self) -> dict[str, Ragged]:
        """Returns the features of one record per row.

        `tokens`: the ids of its chunks, without special tokens. `chunk_starts`:
        offsets of the chunks, except for the first. `sentence_starts`: offsets
        of sentences within chunks. `documents`: the number of each chunk's
        document.
        """
        chunks = self.chunks.features()
        tokens, sentences = chunks["tokens"], chunks["sentence_starts"]
        rows = np.asarray(self.row_starts)
        row_of_chunk = np.repeat(np.arange(len(self)), np.diff(rows))
        row_starts = tokens.splits[rows]
        # Offset of each chunk in its row.
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
) -> ChunkRows:
    """Cuts documents into chunks that fill rows.

    As in `cut_chunks`, chunks consist of whole sentences of a document, at
    least two where they fit, every token is in a chunk, and half of the text is
    cut from the end. How many sentences a chunk has, and which text it is from,
    is chosen to fill rows: the longest chunk that fills the rest of the row, or
    else the longest chunk that leaves a rest which another one fills (best fit,
    longest first; see Ding et al. 2024, arXiv:2404.10830; Krell et al. 2021,
    arXiv:2107.02027).

    A row has at most `max_sequences` chunks, and `max_seq_length` tokens
    including the special tokens of each chunk. With probability
    `short_seq_prob`, the maximum length of its first chunk is drawn uniformly
    from [2, max_seq_length - 3].
    """
    streams = _Streams(
        documents,
        table,
        rng,
        max_seq_length - NUM_SPECIAL_TOKENS,
        _ROWS_PER_STREAM * max_seq_length,
        int(_MIN_REST * max_seq_length),
    )
    slack = int(_SLACK * max_seq_length)
    chunks: list[tuple[int, int, int]] = []
    row_starts = [0]
    while streams.lengths:
        room = streams.max_length
        if short_seq_prob and rng.random() < short_seq_prob:
            short = 2 + int(rng.random() * (room - 1))
            length = _longest(streams.lengths, short)
        else:
            length = 0
        for number in range(max_sequences):
            is_last = number == max_sequences - 1
            length = length or _best_fit(streams, room, slack, is_last)
            if not length:
                break
            chunks.append(streams.take(length))
            room -= length + NUM_SPECIAL_TOKENS
            length = 0
        row_starts.append(len(chunks))
    starts, ends, numbers = np.array(chunks, np.int64).reshape(-1, 3).T
    chunk_slices = Chunks(
        documents.tokens, starts, ends, numbers, documents.sentence_starts
    )
    return ChunkRows(chunk_slices, row_starts)


def _best_fit(streams: _Streams, room: int, slack: int, is_last: bool) -> int:
    """Returns the length of the next chunk of a row, or 0 if none fits.

    A row may be `slack` tokens short of full, and after the last chunk of a row
    no room is left for others.
    """
    lengths, all_lengths = streams.lengths, streams.lengths | streams.single
    for candidates in (lengths, all_lengths):
        length = _longest(candidates, room)
        if length >= room - slack:
            return length
        # Prefer to leave room for a chunk that is not very short.
        for min_rest in () if is_last else (streams.min_rest, 1):
            length = _longest(lengths, room - NUM_SPECIAL_TOKENS - min_rest)
            while length:
                rest = room - NUM_SPECIAL_TOKENS - length
                if _longest(candidates, rest) >= max(1, rest - slack):
                    return length
                length = _longest(lengths, length - 1)
    return _longest(lengths, room) or _longest(all_lengths, room)


def _longest(lengths: int, maximum: int) -> int:
    """Returns the largest element of a bit set up to `maximum`, or 0."""
    return max(0, (lengths & ((2 << max(0, maximum)) - 1)).bit_length() - 1)


class _Streams:
    """Documents that are read by several streams in parallel.

    Attributes:
      max_length: maximum length of a chunk.
      min_rest: number of tokens that a chunk leaves of a stream, if possible.
    """

    def __init__(
        self,
        documents: TokenizedDocuments,
        table: VocabularyTable,
        rng: np.random.Generator,
        max_length: int,
        stream_tokens: int,
        min_rest: int,
    ):
        self.max_length = max_length
        self.min_rest = min_rest
        cuts = Cuts.of_documents(documents, table, max_length)
        directions = (cuts, cuts.mirrored())
        # Of each stream: number of its document, the cuts in its direction, and
        # the indices of the current and the last one.
        self._numbers: list[int] = []
        self._cuts: list[Cuts] = []
        self._next: list[int] = []
        self._last: list[int] = []
        self._offers = _Offers(max_length)
        self._single_offers = _Offers(max_length)
        borders = np.searchsorted(cuts.offsets, documents.document_offsets)
        for number, (start, end) in enumerate(
            itertools.pairwise(borders.tolist()), documents.first_number
        ):
            offsets = cuts.offsets[start : end + 1]
            parts = max(1, (offsets[-1] - offsets[0]) // stream_tokens)
            wanted = np.linspace(offsets[0], offsets[-1], parts + 1)
            inner = start + np.unique(np.searchsorted(offsets, wanted))
            for first, last in itertools.pairwise(inner.tolist()):
                direction, begin, end = draw_direction(
                    rng, directions, first, last
                )
                self._numbers.append(number)
                self._cuts.append(direction)
                self._next.append(begin)
                self._last.append(end)
                self._offer(len(self._next) - 1)

    @property
    def lengths(self) -> int:
        """Bit set of the lengths that the next chunk of a stream can have."""
        return self._offers.lengths

    @property
    def single(self) -> int:
        """Bit set of the lengths of single sentences that could be extended."""
        return self._single_offers.lengths

    def take(self, length: int) -> tuple[int, int, int]:
        """Takes a chunk with a length of `lengths` or `single`.

        It is taken from the stream with the most text left, so that many
        streams last long. Returns its start, its end and its document.
        """
        preferred = self.lengths >> length & 1
        offers = self._offers if preferred else self._single_offers
        stream = offers.best(length, self._left)
        choices, single = self._choices(stream)
        self._offers.withdraw(choices)
        self._single_offers.withdraw(single)
        cuts = self._cuts[stream].offsets
        start = cuts[self._next[stream]]
        self._next[stream] = bisect.bisect_left(cuts, start + length)
        self._offer(stream)
        return *slice_of(start, start + length), self._numbers[stream]

    def _left(self, stream: int) -> int:
        cuts = self._cuts[stream].offsets
        return cuts[self._last[stream]] - cuts[self._next[stream]]

    def _offer(self, stream: int) -> None:
        """Adds the possible lengths of a stream's next chunk to the offers."""
        choices, single = self._choices(stream)
        self._offers.add(choices, stream, self._left(stream))
        self._single_offers.add(single, stream, self._left(stream))

    def _choices(self, stream: int) -> tuple[list[int], list[int]]:
        """Returns the possible lengths of a stream's next chunk.

        Returns:
          Lengths of two or more sentences that do not leave a short rest, or
          else the maximum length; and the length of a single sentence, if it is
          another one.
        """
        first, last = self._next[stream], self._last[stream]
        cuts = self._cuts[stream]
        start, rest = cuts.offsets[first], self._left(stream)
        lengths = [
            cuts.offsets[end] - start
            for end in cuts.ends(first, last, self.max_length)
        ]
        good = [n for n in lengths[1:] if not 0 < rest - n < self.min_rest]
        choices, single = good or lengths[-1:], lengths[:1]
        return choices, [n for n in single if n not in choices]


class _Offers:
    """Index of streams by the possible lengths of their next chunks.

    Attributes:
      lengths: bit set of the lengths of all streams.
    """

    def __init__(self, max_length: int):
        self.lengths = 0
        # For each length, streams by the number of tokens left, largest first.
        # Entries of withdrawn streams are removed when they come first.
        self._heaps: list[list[tuple[int, int]]] = [
            [] for _ in range(max_length + 1)
        ]
        self._counts = [0] * (max_length + 1)

    def add(self, lengths: Sequence[int], stream: int, left: int) -> None:
        """Adds a stream with `left` tokens."""
        for length in lengths:
            heapq.heappush(self._heaps[length], (-left, stream))
            self._counts[length] += 1
            self.lengths |= 1 << length

    def withdraw(self, lengths: Sequence[int]) -> None:
        """Removes a stream, whose number of tokens left is about to change."""
        for length in lengths:
            self._counts[length] -= 1
            if not self._counts[length]:
                self.lengths ^= 1 << length

    def best(self, length: int, tokens_left: Callable[[int], int]) -> int:
        """Returns the stream of a length that has the most tokens left."""
        heap = self._heaps[length]
        while tokens_left(heap[0][1]) != -heap[0][0]:
            heapq.heappop(heap)
        return heap[0][1]
