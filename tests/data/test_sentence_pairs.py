import collections
import dataclasses
import itertools

import numpy as np
import pytest

from albert_tf.array_ops import ArrayOps
from albert_tf.data.sentence_pairs import (
    SentencePairs,
    _truncate,
    draw_sentence_pairs,
    pack_pairs,
)
from albert_tf.data.tokenized_documents import (
    TokenizedDocuments,
    VocabularyTable,
)
from albert_tf.tensor_ops import TensorOps


def tokenized(documents):
    """Returns documents of sentences of given lengths, with unique tokens."""
    lengths = [length for document in documents for length in document]
    return TokenizedDocuments(
        np.arange(sum(lengths), dtype=np.int32),
        np.cumsum([0, *lengths]),
        np.cumsum([0, *map(len, documents)]),
    )


@pytest.fixture(scope="module")
def many():
    rng = np.random.default_rng(0)
    return tokenized(
        [rng.integers(1, 30, rng.integers(2, 20)).tolist() for _ in range(400)]
    )


def draw(documents, seed=0, max_seq_length=64, **settings):
    rng = np.random.default_rng(seed)
    settings = {"max_seq_length": max_seq_length} | settings
    return draw_sentence_pairs(documents, rng, **settings)


def document_of(documents, tokens):
    first_tokens = documents.document_offsets
    return np.searchsorted(first_tokens, tokens, side="right")


def are_of_one_document(documents, pairs):
    """Returns bool `[pairs]`: whether A and B are from the same document."""
    a, b = (
        document_of(documents, starts)
        for starts in (pairs.a_starts, pairs.b_starts)
    )
    return a == b


def test_sop_pairs_are_neighbors_in_order_or_swapped(many):
    pairs, counts = draw(many)
    swapped = pairs.labels == 1
    assert 0.4 < swapped.mean() < 0.6
    first = np.where(swapped, pairs.b_starts, pairs.a_starts)
    second = np.where(swapped, pairs.a_starts, pairs.b_starts)
    first_end = first + np.where(swapped, pairs.b_lengths, pairs.a_lengths)
    assert are_of_one_document(many, pairs).all()
    assert (first_end <= second).all()
    # If nothing was truncated, one starts where the other ends.
    whole = pairs.a_lengths + pairs.b_lengths < 61
    assert whole.any()
    np.testing.assert_array_equal(first_end[whole], second[whole])
    assert set(first_end[whole]) <= set(many.sentence_starts)
    assert counts["one_sentence_chunks"] == counts["dropped_chunks"] > 0
    assert len(pairs) == counts["chunks"] - counts["dropped_chunks"]


def test_random_next_adds_another_document_to_a_single_sentence(many):
    pairs, counts = draw(many, one_sentence_chunks="random_next")
    same = are_of_one_document(many, pairs)
    assert np.count_nonzero(~same) == counts["one_sentence_chunks"] > 0
    assert (pairs.labels[~same] == 1).all()
    assert counts["dropped_chunks"] == 0
    assert len(pairs) == counts["chunks"]


def test_half_of_nsp_pairs_have_a_random_second_segment(many):
    pairs, counts = draw(
        many, sentence_order="nsp", one_sentence_chunks="random_next"
    )
    same = are_of_one_document(many, pairs)
    np.testing.assert_array_equal(pairs.labels == 0, same)
    share = same.sum() / (counts["chunks"] - counts["one_sentence_chunks"])
    assert share == pytest.approx(0.5, abs=0.05)  # 4 standard errors


def test_the_unused_rest_of_an_nsp_chunk_starts_the_next_one():
    documents = tokenized([[3] * 9] * 50)
    pairs, counts = draw(
        documents,
        sentence_order="nsp",
        one_sentence_chunks="random_next",
        max_seq_length=24,  # seven sentences fill it exactly
        short_seq_prob=0,
    )
    assert counts["truncated_pairs"] == 0
    in_order = pairs.labels == 0
    assert 0 < in_order.sum() < len(pairs)
    starts = np.concatenate([pairs.a_starts, pairs.b_starts[in_order]])
    ends = starts + np.concatenate([pairs.a_lengths, pairs.b_lengths[in_order]])
    np.testing.assert_array_equal(np.sort(starts)[1:], np.sort(ends)[:-1])
    assert (starts.min(), ends.max()) == (0, len(documents.tokens))


def test_without_sentence_order_all_text_is_in_order(many):
    pairs, counts = draw(many, sentence_order="none")
    assert (pairs.labels == 0).all()
    single = pairs.b_lengths == 0
    assert single.sum() == counts["one_sentence_chunks"] > 0
    assert len(pairs) == counts["chunks"]
    assert (pairs.a_lengths > 0).all()


@pytest.mark.parametrize("order", ["sop", "nsp", "none"])
@pytest.mark.parametrize("one", ["drop", "random_next"])
def test_lengths_fit_and_are_fully_used(many, order, one):
    pairs, _ = draw(many, sentence_order=order, one_sentence_chunks=one)
    lengths = pairs.a_lengths + pairs.b_lengths
    assert lengths.max() == 61
    assert pairs.a_lengths.min() >= 1
    if order != "none":
        assert pairs.b_lengths.min() >= 1
    # The target of nine in ten documents is the full length.
    assert (lengths == 61).mean() > 0.5


def test_the_target_length_is_drawn_once_per_document():
    documents = tokenized([[1] * 600] * 500)
    pairs, _ = draw(documents, sentence_order="none", short_seq_prob=0.1)
    begins = pairs.a_starts % 600 == 0
    targets = (pairs.a_lengths + pairs.b_lengths)[begins]
    short = targets[targets < 61]
    # Of 500, a share of 0.1 with a standard error of 0.013.
    assert 0.04 < len(short) / 500 < 0.16
    assert short.min() < 12 < 50 < short.max()
    documents_of_chunks = document_of(documents, pairs.a_starts) - 1
    lengths = pairs.a_lengths + pairs.b_lengths
    for number in range(500):
        of_document = lengths[documents_of_chunks == number]
        assert len(set(of_document[:-1])) <= 1  # the last one is the rest


@pytest.mark.parametrize("order", ["sop", "nsp", "none"])
def test_no_pair_has_two_equal_segments(order):
    """Hugging Face's SOP data paired a single sentence with itself."""
    rng = np.random.default_rng(0)
    # A chorus: documents of a few repeated sentences of equal length.
    documents = TokenizedDocuments(
        np.repeat(rng.integers(0, 2, 3000), 5).astype(np.int32),
        np.arange(0, 15001, 5),
        np.arange(0, 3001, 5),
    )
    dropped = 0
    for one in ("drop", "random_next"):
        pairs, counts = draw(
            documents,
            sentence_order=order,
            one_sentence_chunks=one,
            short_seq_prob=1.0,
            max_seq_length=19,
        )
        dropped += counts["dropped_identical_pairs"]
        assert len(pairs) > 100
        for a, a_length, b, b_length in zip(
            pairs.a_starts,
            pairs.a_lengths,
            pairs.b_starts,
            pairs.b_lengths,
            strict=True,
        ):
            assert (
                documents.tokens[a : a + a_length].tolist()
                != documents.tokens[b : b + b_length].tolist()
            )
    assert dropped > 0


def test_random_segments_of_a_single_document():
    documents = tokenized([[5] * 200])
    pairs, _ = draw(documents, sentence_order="nsp", short_seq_prob=0)
    is_random = pairs.labels == 1
    assert 0 < is_random.sum() < len(pairs)
    a_end = pairs.a_starts + pairs.a_lengths
    b_end = pairs.b_starts + pairs.b_lengths
    apart = (a_end <= pairs.b_starts) | (b_end <= pairs.a_starts)
    assert apart.all()
    assert (pairs.b_starts[is_random] != a_end[is_random]).all()
    pairs, counts = draw(tokenized([[5]]), one_sentence_chunks="random_next")
    assert len(pairs) == 0
    assert counts["dropped_chunks"] == 1


def test_no_documents():
    pairs, counts = draw(tokenized([]))
    assert len(pairs) == counts["chunks"] == 0


def test_truncation_equals_the_originals():
    """The original removes tokens one by one."""

    def one_by_one(a, b, maximum, rng):
        (a_start, a_end), (b_start, b_end) = (0, a), (0, b)
        while a_end - a_start + b_end - b_start > maximum:
            front = rng.random() < 0.5
            if a_end - a_start > b_end - b_start:
                a_start, a_end = a_start + front, a_end - (not front)
            else:
                b_start, b_end = b_start + front, b_end - (not front)
        return a_start, a_end - a_start, b_start, b_end - b_start

    sizes = [(40, 5), (5, 40), (20, 20), (21, 20), (20, 21), (30, 25), (2, 1)]
    rows = 2000
    for (a, b), most in itertools.product(sizes, (24, 25)):
        zeros, ones = np.zeros(rows, np.int64), np.ones(rows, np.int64)
        pairs = SentencePairs(zeros, a * ones, zeros, b * ones, zeros)
        cut = _truncate(
            pairs, most, np.random.default_rng(1), collections.Counter()
        )
        rng = np.random.default_rng(2)
        wanted = np.array([one_by_one(a, b, most, rng) for _ in range(rows)])
        np.testing.assert_array_equal(cut.a_lengths, wanted[:, 1])
        np.testing.assert_array_equal(cut.b_lengths, wanted[:, 3])
        for found, start in ((cut.a_starts, 0), (cut.b_starts, 2)):
            # At most 21 tosses: 0.35 are 5 standard errors of the difference of
            # two means, 1.0 are 4 standard errors of that of two variances.
            assert abs(found.mean() - wanted[:, start].mean()) < 0.35
            assert abs(found.var() - wanted[:, start].var()) < 1.0


# Ids 10..29 are text; even ones start a word.
TABLE = VocabularyTable(
    pad_id=0, cls_id=2, sep_id=3, mask_id=4, word_starts=np.arange(30) % 2 == 0
)
TOKENS = np.arange(10, 30, dtype=np.int32)


def pack(*pairs, length=10):
    pairs = SentencePairs(*np.array(pairs, np.int32).T)
    packed = pack_pairs(ArrayOps(), TOKENS, pairs, TABLE, length)
    tensors = pack_pairs(TensorOps(), TOKENS, pairs, TABLE, length)
    for name, values in dataclasses.asdict(packed).items():
        np.testing.assert_array_equal(getattr(tensors, name), values, name)
    return packed


def test_two_segments():
    packed = pack((0, 2, 5, 3, 1), (8, 1, 0, 6, 0))
    np.testing.assert_array_equal(
        packed.input_ids,
        [
            [2, 10, 11, 3, 15, 16, 17, 3, 0, 0],
            [2, 18, 3, 10, 11, 12, 13, 14, 15, 3],
        ],
    )
    np.testing.assert_array_equal(
        packed.input_mask, [[1] * 8 + [0] * 2, [1] * 10]
    )
    np.testing.assert_array_equal(
        packed.segment_ids,
        [[0, 0, 0, 0, 1, 1, 1, 1, 0, 0], [0, 0, 0, 1, 1, 1, 1, 1, 1, 1]],
    )
    np.testing.assert_array_equal(
        packed.token_boundary,
        [[1, 1, 0, 1, 0, 1, 0, 1, 0, 0], [1, 1, 1, 1, 0, 1, 0, 1, 0, 1]],
    )
    np.testing.assert_array_equal(
        packed.is_text,
        [[0, 1, 1, 0, 1, 1, 1, 0, 0, 0], [0, 1, 0, 1, 1, 1, 1, 1, 1, 0]],
    )


def test_separators_in_a_segment_are_not_text():
    tokens = np.array([10, 3, 11], np.int32)
    pair = SentencePairs(*np.array([[0, 3, 3, 0, 0]]).T)
    packed = pack_pairs(ArrayOps(), tokens, pair, TABLE, 6)
    np.testing.assert_array_equal(packed.input_ids, [[2, 10, 3, 11, 3, 0]])
    np.testing.assert_array_equal(packed.is_text, [[0, 1, 0, 1, 0, 0]])
    np.testing.assert_array_equal(packed.token_boundary, [[1, 1, 1, 0, 1, 0]])
    assert packed.lengths == [5]


def test_one_segment_ends_with_one_separator():
    packed = pack((3, 4, 7, 0, 0))
    np.testing.assert_array_equal(
        packed.input_ids, [[2, 13, 14, 15, 16, 3, 0, 0, 0, 0]]
    )
    assert packed.input_mask.sum() == 6
    assert not packed.segment_ids.any()
