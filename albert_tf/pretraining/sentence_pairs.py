"""Pairs of text segments for sentence-order or next-sentence prediction."""

from __future__ import annotations

import bisect
import collections
import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from albert_tf.pretraining.tokenized_documents import (
    TokenizedDocuments,
    VocabularyTable,
)


@dataclasses.dataclass(frozen=True)
class PackedPairs:
    """Padded token ids of pairs, with masks.

    All arrays are `[pairs, seq]`; after the last [SEP] they hold the id of
    `<pad>`, and 0.

    Attributes:
      input_ids: int32 token ids.
      input_mask: bool, True on tokens.
      segment_ids: bool, True on B and its [SEP].
      token_boundary: bool, True on [CLS], [SEP] and pieces that begin a word.
      is_text: bool, True on the tokens of A and B.
    """

    input_ids: np.ndarray
    input_mask: np.ndarray
    segment_ids: np.ndarray
    token_boundary: np.ndarray
    is_text: np.ndarray


def pack_pairs(
    tokens: np.ndarray,
    pairs: SentencePairs,
    table: VocabularyTable,
    max_seq_length: int,
) -> PackedPairs:
    """Packs pairs as `[CLS] A [SEP] B [SEP]`, or without a B `[CLS] A [SEP]`.

    Args:
      tokens: int32 `[tokens]`, of which `pairs` are slices.
      pairs: segments of together at most `max_seq_length - 3` tokens.
      table: ids of the special tokens, and the word starts.
      max_seq_length: length of a packed pair.
    """
    column = np.arange(max_seq_length)
    first_sep = pairs.a_lengths[:, None] + 1
    last_sep = (first_sep + pairs.b_lengths[:, None]) + (
        pairs.b_lengths[:, None] > 0
    )
    in_a = (column > 0) & (column < first_sep)
    in_b = (column > first_sep) & (column < last_sep)
    is_text = in_a | in_b
    source = np.where(
        in_a,
        pairs.a_starts[:, None] + column - 1,
        pairs.b_starts[:, None] + column - first_sep - 1,
    )
    input_ids = np.full(source.shape, table.pad_id, np.int32)
    input_ids[:, 0] = table.cls_id
    input_ids[(column == first_sep) | (column == last_sep)] = table.sep_id
    input_ids[is_text] = tokens[source[is_text]]
    input_mask = column <= last_sep
    return PackedPairs(
        input_ids=input_ids,
        input_mask=input_mask,
        segment_ids=input_mask & (column > first_sep),
        token_boundary=input_mask & (~is_text | table.word_starts[input_ids]),
        is_text=is_text,
    )


# Kind of pair that half of the chunks of several sentences become.
_OTHER_KIND = {"sop": "swap", "nsp": "random_next", "none": "in_order"}

# [CLS] A [SEP] B [SEP]
NUM_SPECIAL_TOKENS = 3


@dataclasses.dataclass(frozen=True)
class SentencePairs:
    """Segments A and B as slices of `TokenizedDocuments.tokens`.

    All arrays are `[pairs]`.

    Attributes:
      a_starts, a_lengths: first token and number of tokens of A.
      b_starts, b_lengths: the same for B; length 0 where there is no B.
      labels: 1 where B does not follow A (swapped or random), else 0.
    """

    a_starts: np.ndarray
    a_lengths: np.ndarray
    b_starts: np.ndarray
    b_lengths: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index) -> SentencePairs:
        """Returns the pairs that a slice, mask or index array selects."""
        return SentencePairs(
            *(
                getattr(self, field.name)[index]
                for field in dataclasses.fields(self)
            )
        )


def draw_sentence_pairs(
    documents: TokenizedDocuments,
    rng: np.random.Generator,
    *,
    max_seq_length: int,
    short_seq_prob: float = 0.1,
    sentence_order: str = "sop",
    one_sentence_chunks: str = "drop",
) -> tuple[SentencePairs, collections.Counter[str]]:
    """Cuts every document into chunks once and makes each chunk a pair.

    The procedure is the original's: a document's target length is
    `max_seq_length - 3` tokens or, with probability `short_seq_prob`, uniform
    in [2, that]; a chunk takes sentences until it reaches the target or the
    document ends; a uniformly drawn sentence boundary splits it into A and B;
    if they are too long, the longer segment loses tokens one by one at a random
    end.

    There are two differences. With `one_sentence_chunks="drop"` a chunk of a
    single sentence, which has no order to predict, makes no pair; the original
    adds text of a random other document with label 1, so that its SOP data
    contain next-sentence negatives (google-research/albert#234). And pairs of
    identical segments, whose order cannot be told, are dropped.

    Args:
      documents: documents to cut. Random segments come from another one of
        them, or from the same if there is only one.
      rng: source of all randomness.
      max_seq_length: longest `[CLS] A [SEP] B [SEP]`.
      short_seq_prob: share of documents cut to a shorter target length.
      sentence_order: "sop": half of the pairs are swapped. "nsp": half have a
        random B; the unused rest of the chunk begins the next one. "none":
        all pairs are in order with label 0, for masked LM alone; a chunk of
        one sentence becomes A without a B.
      one_sentence_chunks: "drop" or, as the original, "random_next". No effect
        with "none".

    Returns:
      The pairs in document order, and counts: `chunks`, `one_sentence_chunks`,
      `dropped_chunks` (without a pair), `truncated_pairs` and
      `dropped_identical_pairs`.
    """
    max_tokens = max_seq_length - NUM_SPECIAL_TOKENS
    other_kind = _OTHER_KIND[sentence_order]
    if sentence_order == "none":
        one_sentence_kind = "in_order"
    else:
        one_sentence_kind = one_sentence_chunks
    starts = documents.sentence_starts.tolist()
    counts: collections.Counter[str] = collections.Counter()
    pairs: list[tuple[int, int, int, int, int]] = []
    for document, (begin, document_end) in enumerate(
        itertools.pairwise(documents.document_starts.tolist())
    ):
        target = max_tokens
        if rng.random() < short_seq_prob:
            target = 2 + _draw(rng, max_tokens - 1)
        while begin < document_end:
            # A is sentences begin..middle-1, the rest of the chunk up to end-1.
            end = _reach(starts, begin, target, document_end)
            middle = end
            if end == begin + 1:
                counts["one_sentence_chunks"] += 1
                kind = one_sentence_kind
            else:
                middle = begin + 1 + _draw(rng, end - begin - 1)
                kind = other_kind if rng.random() < 0.5 else "in_order"
            counts["chunks"] += 1
            a = (starts[begin], starts[middle] - starts[begin])
            b: tuple[int, int] | None = (
                starts[middle],
                starts[end] - starts[middle],
            )
            if kind == "random_next":
                b = _draw_elsewhere(
                    documents, document, (begin, middle), target - a[1], rng
                )
                end = middle  # the next chunk begins with what is unused
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
    """Draws from 0..n-1; several times faster than `rng.integers`."""
    return int(rng.random() * n)


def _reach(
    starts: Sequence[int] | np.ndarray, first: int, num_tokens: int, stop: int
) -> int:
    """Returns the end of the fewest sentences from `first` with `num_tokens`.

    It is at least one sentence and ends no later than sentence `stop`.
    """
    return bisect.bisect_left(
        starts, starts[first] + num_tokens, first + 1, stop
    )


def _draw_elsewhere(
    documents: TokenizedDocuments,
    document: int,
    a: tuple[int, int],
    num_tokens: int,
    rng: np.random.Generator,
) -> tuple[int, int] | None:
    """Draws a segment that does not continue sentences a[0]..a[1]-1.

    Returns:
      Start and length in tokens: sentences of another document from a random
      one on, until there are `num_tokens`. If there is no other document, of
      the same one, but neither A nor what follows it; None if that is all.
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
    end = _reach(starts, first, num_tokens, stop)
    return starts[first], starts[end] - starts[first]


def _truncate(
    pairs: SentencePairs,
    max_tokens: int,
    rng: np.random.Generator,
    counts: collections.Counter[str],
) -> SentencePairs:
    """Shortens pairs to `max_tokens`.

    The original takes one token at a time from the longer segment, B where they
    are equal, at its front or back with probability 1/2. How many each segment
    loses is thus fixed, and how many at the front is binomial.
    """
    excess = np.maximum(pairs.a_lengths + pairs.b_lengths - max_tokens, 0)
    counts["truncated_pairs"] += int(np.count_nonzero(excess))
    lead = pairs.a_lengths - pairs.b_lengths
    while_unequal = np.minimum(excess, np.abs(lead))
    in_turn = excess - while_unequal
    a_loss = np.where(lead > 0, while_unequal, 0) + in_turn // 2
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
