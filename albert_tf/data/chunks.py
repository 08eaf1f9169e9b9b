"""Chunks: consecutive tokens of a document, and rows that they fill."""

from __future__ import annotations

import bisect
import collections
import dataclasses
import functools
import heapq
import itertools
from collections.abc import Callable, Sequence

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
            documents.tokens, starts[documents.document_starts], table
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

        Args:
          first: index of the cut at which it starts.
          last: index of the last possible end.
          max_tokens: maximum length of the chunk.
        """
        stop = bisect.bisect_right(
            self.offsets, self.offsets[first] + max_tokens, hi=last + 1
        )
        piece = bisect.bisect_left(self.inside, first)
        if piece < len(self.inside):
            stop = min(stop, max(self.inside[piece], first + 2))
        return range(first + 1, stop)


def cut_chunks(
    documents: TokenizedDocuments,
    table: VocabularyTable,
    rng: np.random.Generator,
    *,
    max_tokens: int,
    short_seq_prob: float = 0.0,
) -> tuple[Chunks, collections.Counter[str]]:
    """Cuts documents into chunks for pairs; every token is in a chunk.

    The target length of a chunk is `max_tokens` or, with probability
    `short_seq_prob`, drawn uniformly from [2, max_tokens]. A chunk has whole
    sentences of a document, as the punctuation at a cut inside a sentence would
    reveal the order of the segments: as many as the target permits, but two, or
    at least one, even if they exceed it. Only a sentence longer than
    `max_tokens` is cut, at the start of a word or inside a longer word.

    Half of the documents are cut from the end: the sentence that does not fit
    into a chunk and begins the next one is long, so that otherwise the length
    of the first sentence would reveal the order.

    Args:
      documents: documents to cut.
      table: special ids and word starts of the vocabulary.
      rng: source of all randomness.
      max_tokens: maximum number of tokens in a chunk.
      short_seq_prob: share of shorter chunks.

    Returns:
      The chunks in document order, and counts: `chunks` and `kept_tokens`, the
      number of text tokens in all chunks.
    """
    cuts = Cuts.of_documents(documents, table, max_tokens)
    directions = (cuts, cuts.mirrored())
    boundaries = documents.sentence_starts[documents.document_starts]
    borders = np.searchsorted(cuts.offsets, boundaries)
    chunks: list[tuple[int, int, int]] = []
    for number, (first, last) in enumerate(
        itertools.pairwise(borders.tolist()), documents.first_number
    ):
        backward = rng.random() < 0.5
        cuts = directions[backward]
        if backward:
            size = len(cuts.offsets) - 1
            first, last = size - last, size - first
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
        chunks += reversed(found) if backward else found
    starts, ends, numbers = np.array(chunks, np.int64).reshape(-1, 3).T
    result = Chunks(
        documents.tokens, starts, ends, numbers, documents.sentence_starts
    )
    counts = {"chunks": len(chunks), "kept_tokens": len(documents.tokens)}
    return result, collections.Counter(counts)


def slice_of(start: int, end: int) -> tuple[int, int]:
    """Returns a slice of the text, given that or that of the reversed text."""
    return (start, end) if end > 0 else (-end, -start)


def cut_joined(
    documents: TokenizedDocuments,
    table: VocabularyTable,
    rng: np.random.Generator,
    *,
    max_tokens: int,
    short_seq_prob: float = 0.0,
) -> tuple[Chunks, collections.Counter[str]]:
    """Cuts documents, joined by [SEP], into chunks of a single segment.

    Chunks have the target length of `cut_chunks`, or end at the start of the
    word before it, and may cross the boundaries of sentences and documents
    (RoBERTa's FULL-SENTENCES; Liu et al. 2019, section 4.2).

    Args:
      documents: documents to cut.
      table: special ids and word starts of the vocabulary.
      rng: source of all randomness.
      max_tokens: maximum number of tokens in a chunk.
      short_seq_prob: share of shorter chunks.

    Returns:
      What `cut_chunks` returns; a [SEP] is not a text token.
    """
    sentence_starts = documents.sentence_starts
    inner = sentence_starts[documents.document_starts][1:-1]
    tokens = np.insert(documents.tokens, inner, table.sep_id)
    # Each separator before a sentence moves it by one token.
    sentence_starts = sentence_starts + np.searchsorted(
        inner, sentence_starts, "right"
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
    result = Chunks(tokens, edges[:-1], edges[1:], numbers, sentence_starts)
    counts = {"chunks": len(result), "kept_tokens": len(documents.tokens)}
    return result, collections.Counter(counts)


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
) -> tuple[ChunkRows, collections.Counter[str]]:
    """Cuts documents into chunks that fill rows.

    As in `cut_chunks`, chunks consist of whole sentences of a document, at
    least two where they fit, every token is in a chunk, and half of the text is
    cut from the end. How many sentences a chunk has, and which text it is from,
    is chosen to fill rows: the longest chunk that fills the rest of the row, or
    else the longest chunk that leaves a rest which another one fills (best fit,
    longest first; see Ding et al. 2024, arXiv:2404.10830; Krell et al. 2021,
    arXiv:2107.02027).

    Args:
      documents: documents to cut.
      table: special ids and word starts of the vocabulary.
      rng: source of all randomness.
      max_seq_length: maximum number of tokens in a row, including the special
        tokens of each chunk.
      max_sequences: maximum number of chunks in a row.
      short_seq_prob: share of rows whose first chunk has a maximum length that
        is drawn uniformly from [2, max_seq_length - 3].

    Returns:
      The rows, and the counts of `cut_chunks`: `chunks` and `kept_tokens`.
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
    counts: collections.Counter[str] = collections.Counter()
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
    counts.update(chunks=len(chunks), kept_tokens=int((ends - starts).sum()))
    chunk_slices = Chunks(
        documents.tokens, starts, ends, numbers, documents.sentence_starts
    )
    return ChunkRows(chunk_slices, row_starts), counts


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
        boundaries = documents.sentence_starts[documents.document_starts]
        for number, (start, end) in enumerate(
            itertools.pairwise(
                np.searchsorted(cuts.offsets, boundaries).tolist()
            )
        ):
            offsets = cuts.offsets[start : end + 1]
            parts = max(1, (offsets[-1] - offsets[0]) // stream_tokens)
            wanted = np.linspace(offsets[0], offsets[-1], parts + 1)
            borders = start + np.unique(np.searchsorted(offsets, wanted))
            for first, last in itertools.pairwise(borders.tolist()):
                backward = rng.random() < 0.5
                if backward:
                    size = len(cuts.offsets) - 1
                    first, last = size - last, size - first
                self._cuts.append(directions[backward])
                self._numbers.append(documents.first_number + number)
                self._next.append(first)
                self._last.append(last)
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
        streams last long.

        Returns:
          Start and end of the chunk, and the number of its document.
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
