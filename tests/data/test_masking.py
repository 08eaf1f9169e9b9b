import collections
import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.array_ops import ArrayOps
from albert_tf.data.data_config import MaskingConfig
from albert_tf.data.masking import (
    MaskedTokens,
    mask_words,
    ngram_probabilities,
    num_predictions,
    take_words,
)
from albert_tf.data.sentence_pairs import PackedPairs, SentencePairs, pack_pairs
from albert_tf.data.tokenized_documents import VocabularyTable
from albert_tf.tensor_ops import TensorOps

VOCAB_SIZE = 2000
MASK_ID = 4


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    return VocabularyTable(
        pad_id=0,
        cls_id=2,
        sep_id=3,
        mask_id=MASK_ID,
        word_starts=rng.random(VOCAB_SIZE) < 0.75,
    )


@pytest.fixture(scope="module")
def packed(table):
    """1000 rows of 128; the last 50 are short, down to one token a segment."""
    rng = np.random.default_rng(1)
    tokens = rng.integers(5, VOCAB_SIZE, 200_000).astype(np.int32)
    a = rng.integers(10, 60, 1000)
    b = rng.integers(10, 60, 1000)
    a[-50:], b[-50:] = rng.integers(1, 4, (2, 50))
    starts = rng.integers(0, 100_000, (2, 1000))
    pairs = SentencePairs(starts[0], a, starts[1], b, np.zeros(1000, int))
    return pack_pairs(ArrayOps(), tokens, pairs, table, 128)


@pytest.fixture(params=["arrays", "tensors"])
def mask(request):
    """Returns `mask(packed, table, seed, **settings)`, in NumPy or a graph."""

    def mask(packed, table, seed=0, **settings):
        config = MaskingConfig(**{"max_predictions_per_seq": 20} | settings)
        quotas = num_predictions(packed.input_ids.shape[1], config)
        quotas = quotas[packed.lengths]
        if request.param == "arrays":
            ops = ArrayOps(np.random.default_rng(seed))
            return mask_words(ops, packed, quotas, table, config)

        @tf.function(autograph=False)  # As in the input pipeline.
        def in_graph(seed):
            tensors = map(tf.constant, dataclasses.asdict(packed).values())
            packed_tensors = PackedPairs(*tensors)
            return vars(
                mask_words(
                    TensorOps(seed), packed_tensors, quotas, table, config
                )
            )

        masked = in_graph(tf.constant([seed, 0], tf.int64))
        return MaskedTokens(**{x: y.numpy() for x, y in masked.items()})

    return mask


def masked_positions(packed, masked):
    """Returns bool `[rows, seq]`, True on predicted tokens."""
    chosen = np.zeros(packed.input_ids.shape, bool)
    rows, slots = np.nonzero(masked.weights)
    chosen[rows, masked.positions[rows, slots]] = True
    return chosen


@pytest.fixture(scope="module")
def words(packed):
    """Row and positions of each word, grouped as in the original's loop."""

    def group(is_text, token_boundary):
        words = []
        for position in np.flatnonzero(is_text):
            if words and not token_boundary[position]:
                words[-1].append(position)
            else:
                words.append([position])
        return words

    return [
        (row, word)
        for row in range(len(packed.is_text))
        for word in group(packed.is_text[row], packed.token_boundary[row])
    ]


@pytest.mark.parametrize(
    ("probability", "most", "whole"),
    [
        (0.15, 20, True),
        (0.15, 7, True),
        (0.15, 20, False),
        (0.3, 60, False),
        (0.01, 20, False),
    ],
)
def test_quota_is_met(mask, packed, table, probability, most, whole):
    masked = mask(
        packed,
        table,
        masked_lm_prob=probability,
        max_predictions_per_seq=most,
        do_whole_word_mask=whole,
    )
    wanted = [
        min(most, max(1, round(int(length) * probability)))
        for length in packed.input_mask.sum(axis=1)
    ]
    found = masked.weights.sum(axis=1)
    assert (found <= wanted).all()
    # Rows of a few tokens may lack a word that is small enough.
    np.testing.assert_array_equal(found[:-50], wanted[:-50])


def test_words_are_masked_as_a_whole(mask, packed, table, words):
    chosen = masked_positions(packed, mask(packed, table))
    sizes = collections.Counter()
    for row, word in words:
        masked = set(chosen[row, word])
        assert len(masked) == 1
        sizes[len(word)] += masked == {True}
    assert sizes[1] > sizes[2] > sizes[3] > 0
    pieces = masked_positions(
        packed, mask(packed, table, do_whole_word_mask=False)
    )
    assert any(len({*pieces[row, word]}) == 2 for row, word in words)


def test_eighty_ten_ten_by_token(mask, packed, table):
    masked = mask(packed, table)
    rows, slots = np.nonzero(masked.weights)
    inputs = masked.input_ids[rows, masked.positions[rows, slots]]
    labels = masked.ids[rows, slots]
    total = len(labels)
    # 16,000 tokens: 5 standard errors are 0.016, of the others 0.012.
    assert np.mean(inputs == MASK_ID) == pytest.approx(0.8, abs=0.016)
    assert np.mean(inputs == labels) == pytest.approx(0.1, abs=0.012)
    random = inputs[(inputs != MASK_ID) & (inputs != labels)]
    assert len(random) / total == pytest.approx(0.1, abs=0.012)
    assert not np.isin(random, [0, 2, 3, MASK_ID]).any()
    # Uniform over the vocabulary: mean of 1000 with a standard error of 15.
    assert abs(random.mean() - VOCAB_SIZE / 2) < 75
    assert (random == 1).sum() < 10


@pytest.mark.parametrize("favor_shorter", [True, False])
def test_ngrams_follow_their_probabilities(mask, table, favor_shorter):
    """In rows of 500 words with 3 predictions, spans rarely overlap."""
    every_piece = dataclasses.replace(
        table, word_starts=np.ones(VOCAB_SIZE, bool)
    )
    zeros = np.zeros(3000, int)
    pairs = SentencePairs(zeros, zeros + 250, zeros + 400, zeros + 250, zeros)
    packed = pack_pairs(
        ArrayOps(), np.full(999, 100, np.int32), pairs, every_piece, 503
    )
    masked = mask(
        packed,
        every_piece,
        max_predictions_per_seq=3,
        favor_shorter_ngram=favor_shorter,
    )
    neighbors = (np.diff(masked.positions, axis=1) == 1).sum(axis=1)
    p1, p2, p3 = ngram_probabilities(3, favor_shorter)
    # One, one and one; two and one, in any order, where the second n-gram may
    # have been shortened to the two that remain; or three.
    wanted = [p1 * p1, p2 + p1 * (p2 + p3), p3]
    shares = np.bincount(neighbors, minlength=3) / 3000
    # 5 standard errors, and 0.01 for spans that touch.
    np.testing.assert_allclose(shares, wanted, atol=0.055)


@pytest.mark.parametrize(
    ("n", "favor_shorter", "shares"),
    [(3, True, (6, 3, 2)), (3, False, (2, 3, 6)), (1, True, (1,))],
)
def test_ngram_probabilities(n, favor_shorter, shares):
    found = ngram_probabilities(n, favor_shorter)
    np.testing.assert_allclose(found, np.array(shares) / sum(shares))


def test_words_cut_at_the_front(mask, table):
    """The first piece of A starts a word; that of B continues A's last word."""
    continues = int(np.flatnonzero(~table.word_starts[5:])[0]) + 5
    begins = int(np.flatnonzero(table.word_starts[5:])[0]) + 5
    tokens = np.array([continues, begins, continues, begins], np.int32)
    pairs = SentencePairs(*np.array([[0, 2, 2, 2, 0]] * 500).T)
    packed = pack_pairs(ArrayOps(), tokens, pairs, table, 8)
    # [CLS] (+) (b [SEP] +) (b) [SEP]: words of positions 1; 2 and 4; 5.
    chosen = masked_positions(
        packed, mask(packed, table, masked_lm_prob=0.3, ngram=1)
    )
    assert (chosen.sum(axis=1) == 2).all()
    np.testing.assert_array_equal(chosen[:, 2], chosen[:, 4])
    assert 0 < chosen[:, 2].sum() < 500
    np.testing.assert_array_equal(chosen[:, 1], chosen[:, 5])


def test_equal_seeds_mask_equally(mask, packed, table):
    first, second, other = (mask(packed, table, seed) for seed in (5, 5, 6))
    np.testing.assert_array_equal(first.input_ids, second.input_ids)
    assert not np.array_equal(first.positions, other.positions)


@pytest.mark.parametrize("ngram", [1, 3, 5])
def test_equal_draws_take_equal_words(ngram):
    rng = np.random.default_rng(ngram)
    sizes = rng.integers(1, 4, (200, 60), dtype=np.int32)
    sizes[np.arange(60) >= rng.integers(0, 61, 200)[:, None]] = 0
    order = np.argsort(
        np.where(sizes > 0, rng.random(sizes.shape), 2), axis=1
    ).astype(np.int32)
    lengths = rng.integers(1, ngram + 1, sizes.shape, dtype=np.int32)
    quotas = rng.integers(0, 30, 200, dtype=np.int32)
    expected = take_words(ArrayOps(), sizes, quotas, order, lengths, ngram)
    np.testing.assert_array_equal(
        take_words(TensorOps(), sizes, quotas, order, lengths, ngram), expected
    )
    assert 0 < expected.sum() < expected.size
