"""Pairs of text segments for sentence-order or next-sentence prediction."""

from __future__ import annotations

import bisect
import collections
import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from albert_tf.data.chunks import NUM_SPECIAL_TOKENS, Chunks, slice_of
from albert_tf.data.tokenized_documents import (
    TokenizedDocuments,
    VocabularyTable,
)
from albert_tf.text.packing import Segment, pack


@dataclasses.dataclass(frozen=True)
class PackedPairs:
    """Padded token ids of pairs, with masks: arrays or tensors.

    All but the lengths are `[pairs, seq]`. Padding, after the last [SEP], has
    the id of `<pad>` and is False in the masks.

    Attributes:
      input_ids: int32 token ids.
      input_mask: bool, True on tokens.
      segment_ids: bool, True on B and its [SEP].
      token_boundary: bool, True on [CLS], [SEP] and pieces that start a word.
      is_text: bool, True on the tokens of A and B; not on a [SEP] within A.
      lengths: integers `[pairs]`, number of tokens.
    """

    input_ids: Any
    input_mask: Any
    segment_ids: Any
    token_boundary: Any
    is_text: Any
    lengths: Any


def pack_pairs(
    ops: Any,
    tokens: Any,
    pairs: SentencePairs,
    table: VocabularyTable,
    max_seq_length: int,
) -> PackedPairs:
    """Packs `[CLS] A [SEP] B [SEP]`, or `[CLS] A [SEP]` if there is no B.

    Args:
      ops: `ArrayOps` or `TensorOps`.
      tokens: int32 `[tokens]`, which `pairs` are slices of.
      pairs: pairs of at most `max_seq_length - 3` tokens; without B, of one
        more.
      table: special ids and word starts of the vocabulary.
      max_seq_length: length of a packed pair.
    """
    sequences = pack(
        ops,
        table,
        [
            Segment(tokens, pairs.a_starts, pairs.a_lengths),
            Segment(tokens, pairs.b_starts, pairs.b_lengths),
        ],
        max_seq_length,
        drop_empty=True,
    )
    input_ids = sequences["input_word_ids"]
    input_mask = sequences["input_mask"] > 0
    is_special = (input_ids == table.cls_id) | (input_ids == table.sep_id)
    is_text = input_mask & ~is_special
    starts_word = ops.gather(table.word_starts, input_ids)
    separators = 1 + ops.integers(pairs.b_lengths > 0)
    return PackedPairs(
        input_ids=input_ids,
        input_mask=input_mask,
        segment_ids=sequences["input_type_ids"] > 0,
        token_boundary=input_mask & (is_special | starts_word),
        is_text=is_text,
        lengths=1 + pairs.a_lengths + pairs.b_lengths + separators,
    )


# Number of chunks that are tried as random next segments, until one is from
# another document.
_NSP_TRIES = 4

# sentence_order -> kind of pair that half of the chunks become.
_OTHER_KIND = {"sop": "swap", "nsp": "random_next", "none": "in_order"}


@dataclasses.dataclass(frozen=True)
class SentencePairs:
    """Segments A and B as slices of tokens, one after the other.

    All arrays, or tensors, are `[pairs]`.

    Attributes:
      a_starts, a_lengths: first token and number of tokens of A.
      b_starts, b_lengths: the same for B; the length is 0 if there is no B.
      labels: 1 if B does not follow A (swapped or random), else 0.
    """

    a_starts: Any
    a_lengths: Any
    b_starts: Any
    b_lengths: Any
    labels: Any

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index) -> SentencePairs:
        """Returns the pairs selected by a slice, mask or index array."""
        return SentencePairs(
            *(
                getattr(self, field.name)[index]
                for field in dataclasses.fields(self)
            )
        )


def split_at_first_boundary(
    chunks: Chunks, is_pair: np.ndarray
) -> SentencePairs:
    """Returns chunks as pairs in order; those that are no pair lack B."""
    boundaries, b_lengths = chunks.boundaries, np.zeros_like(chunks.starts)
    offsets = boundaries.values[boundaries.splits[:-1][is_pair]]
    b_lengths[is_pair] = (chunks.ends - chunks.starts)[is_pair] - offsets
    middle = chunks.ends - b_lengths
    return SentencePairs(
        chunks.starts,
        middle - chunks.starts,
        middle,
        b_lengths,
        np.zeros_like(middle),
    )


def draw_partners(
    ops: Any, lengths: Any, documents: Any, chosen: Any, draws: Any
) -> tuple[Any, Any]:
    """Draws the chunks that provide random second segments, for NSP.

    A chosen chunk gets the segment of the chosen chunk with the next smaller
    length. Rows thus stay as full as they are, segments end at the ends of
    sentences, and neither the length nor the end of a segment reveals that it
    is random.

    Args:
      ops: `ArrayOps` or `TensorOps`.
      lengths: integers `[chunks]`, length of the second segments.
      documents: int64 `[chunks]`, number of each chunk's document.
      chosen: bool `[chunks]`, which chunks get a random segment.
      draws: float32 `[chunks]` from [0, 1), for the order of equal lengths.

    Returns:
      Integers `[chunks]`, the chunk that provides the segment, and bool
      `[chunks]`, whether it belongs to another document.
    """
    keys = ops.cast(lengths, np.float32) + draws
    # The chosen chunks come first, by ascending length.
    order = ops.argsort(ops.where(chosen, keys, np.float32(np.inf))[None])[0]
    rank = ops.arange(ops.shape(order)[0])
    documents = ops.gather(documents, order)
    partner = rank
    for step in range(1, _NSP_TRIES + 1):
        same = ops.gather(documents, partner) == documents
        partner = ops.where(same & (rank >= step), rank - step, partner)
    found = ops.gather(documents, partner) != documents
    rank_of_chunk = ops.replace(rank, order, rank)
    partner = ops.gather(ops.gather(order, partner), rank_of_chunk)
    return partner, ops.gather(found, rank_of_chunk)


def draw_sentence_pairs(
    documents: TokenizedDocuments,
    rng: np.random.Generator,
    *,
    max_seq_length: int,
    short_seq_prob: float = 0.1,
    sentence_order: str = "sop",
    one_sentence_chunks: str = "drop",
) -> tuple[SentencePairs, collections.Counter[str]]:
    """Cuts documents into chunks and converts each chunk to a pair.

    The procedure is the original's. The target length of a document is
    `max_seq_length - 3` tokens or, with probability `short_seq_prob`, drawn
    uniformly from [2, max_seq_length - 3]. Sentences are added to a chunk until
    it reaches the target or the document ends. A uniformly drawn sentence
    boundary splits it into A and B. If they are too long, tokens are removed
    one by one from a random end of the longer segment. Random segments come
    from another document, or from the same one if it is the only one.

    There are three differences. With `one_sentence_chunks="drop"`, a chunk of a
    single sentence, which has no order to predict, is dropped; the original
    ("random_next") adds text of a random other document with label 1, so that
    its SOP data contain next-sentence negatives (google-research/albert#234).
    Pairs of identical segments are dropped, as they have no order. And for SOP,
    half of the documents are cut from the end: the sentence that exceeds the
    target is long and often truncated, and in the original it is always the
    last one of its chunk, which reveals the order.

    With `sentence_order="sop"`, half of the pairs are swapped. With "nsp", half
    have a random B, and the unused rest of the chunk starts the next one. With
    "none", all are in order with label 0, for masked LM only, and a chunk of
    one sentence becomes A without B.

    Returns:
      The pairs in document order, and counts: `chunks`, `one_sentence_chunks`,
      `dropped_chunks`, `truncated_pairs` and `dropped_identical_pairs`.
    """
    max_tokens = max_seq_length - NUM_SPECIAL_TOKENS
    other_kind = _OTHER_KIND[sentence_order]
    if sentence_order == "none":
        one_sentence_kind = "in_order"
    else:
        one_sentence_kind = one_sentence_chunks
    forward = documents.sentence_starts.tolist()
    mirrored = [-start for start in reversed(forward)]
    size = documents.num_sentences
    counts: collections.Counter[str] = collections.Counter()
    pairs: list[tuple[int, int, int, int, int]] = []
    for document, (begin, document_end) in enumerate(
        itertools.pairwise(documents.document_starts.tolist())
    ):
        target = max_tokens
        if rng.random() < short_seq_prob:
            target = 2 + _draw(rng, max_tokens - 1)
        starts = forward
        if sentence_order == "sop" and rng.random() < 0.5:
            starts = mirrored
            begin, document_end = size - document_end, size - begin
        while begin < document_end:
            # A is sentences begin..middle-1, the rest of the chunk up to end-1;
            # in mirrored text, it is the other way round.
            end = _end_of_chunk(starts, begin, target, document_end)
            middle = end
            if end == begin + 1:
                counts["one_sentence_chunks"] += 1
                kind = one_sentence_kind
            else:
                middle = begin + 1 + _draw(rng, end - begin - 1)
                kind = other_kind if rng.random() < 0.5 else "in_order"
            counts["chunks"] += 1
            a = _slice(starts, begin, middle)
            rest = _slice(starts, middle, end)
            if starts is mirrored and middle < end:
                a, rest = rest, a
            b: tuple[int, int] | None = rest
            if kind == "random_next":
                sentences = begin, middle
                if starts is mirrored:
                    sentences = size - middle, size - begin
                b = _draw_random_segment(
                    documents, document, sentences, target - a[1], rng
                )
                end = middle  # the next chunk starts with the unused rest
            if kind == "drop" or b is None:
                counts["dropped_chunks"] += 1
            elif kind == "swap":
                pairs.append((*b, *a, 1))
            else:
                pairs.append((*a, *b, int(kind == "random_next")))
            begin = end
    table = np.array(pairs, np.int64).reshape(-1, 5).T
    result = _truncate(SentencePairs(*table), max_tokens, rng, counts)
    return _drop_identical(documents.tokens, result, counts), counts


def _draw(rng: np.random.Generator, n: int) -> int:
    """Draws from 0..n-1, several times faster than `rng.integers`."""
    return int(rng.random() * n)


def _slice(starts: Sequence[int], first: int, end: int) -> tuple[int, int]:
    """Returns start and length of the text of sentences first..end-1."""
    start, stop = slice_of(starts[first], starts[end])
    return start, stop - start


def _end_of_chunk(
    starts: Sequence[int] | np.ndarray, first: int, num_tokens: int, stop: int
) -> int:
    """Returns the end of the fewest sentences with `num_tokens`, from `first`.

    It is after at least one sentence, and at most at sentence `stop`.
    """
    return bisect.bisect_left(
        starts, starts[first] + num_tokens, first + 1, stop
    )


def _draw_random_segment(
    documents: TokenizedDocuments,
    document: int,
    a: tuple[int, int],
    num_tokens: int,
    rng: np.random.Generator,
) -> tuple[int, int] | None:
    """Draws a segment that does not follow A, the sentences a[0]..a[1]-1.

    It has the fewest sentences with `num_tokens`, from a random sentence of
    another document. If there is no other document, it is from the same one,
    and starts neither in A nor with the sentence after A.

    Returns:
      Start and length in tokens, or None if there is no such sentence.
    """
    boundaries = documents.document_starts
    if documents.num_documents > 1:
        other = _draw(rng, documents.num_documents - 1)
        other += other >= document
        first = boundaries[other] + _draw(
            rng, boundaries[other + 1] - boundaries[other]
        )
        stop = boundaries[other + 1]
    else:
        last = documents.num_sentences
        choice = np.r_[0 : a[0], a[1] + 1 : last]
        if not len(choice):
            return None
        first = choice[_draw(rng, len(choice))]
        stop = a[0] if first < a[0] else last
    starts = documents.sentence_starts
    end = _end_of_chunk(starts, first, num_tokens, stop)
    return starts[first], starts[end] - starts[first]


def _truncate(
    pairs: SentencePairs,
    max_tokens: int,
    rng: np.random.Generator,
    counts: collections.Counter[str],
) -> SentencePairs:
    """Truncates pairs to `max_tokens`.

    The original removes one token at a time from the longer segment, or B if
    they are equal, at its front or back with probability 1/2. So the number of
    tokens that each segment loses is fixed, and the number at its front is
    binomial.
    """
    excess = np.maximum(pairs.a_lengths + pairs.b_lengths - max_tokens, 0)
    counts["truncated_pairs"] += int(np.count_nonzero(excess))
    difference = pairs.a_lengths - pairs.b_lengths
    until_equal = np.minimum(excess, np.abs(difference))
    alternating = excess - until_equal
    a_loss = np.where(difference > 0, until_equal, 0) + alternating // 2
    b_loss = excess - a_loss
    return SentencePairs(
        pairs.a_starts + rng.binomial(a_loss, 0.5),
        pairs.a_lengths - a_loss,
        pairs.b_starts + rng.binomial(b_loss, 0.5),
        pairs.b_lengths - b_loss,
        pairs.labels,
    )


def _drop_identical(
    tokens: np.ndarray, pairs: SentencePairs, counts: collections.Counter[str]
) -> SentencePairs:
    keep = np.ones(len(pairs), bool)
    for row in np.flatnonzero(pairs.a_lengths == pairs.b_lengths):
        a, b, length = (
            array[row]
            for array in (pairs.a_starts, pairs.b_starts, pairs.a_lengths)
        )
        keep[row] = not np.array_equal(
            tokens[a : a + length], tokens[b : b + length]
        )
    counts["dropped_identical_pairs"] += int(len(pairs) - keep.sum())
    return pairs[keep]
