import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.data_config import MaskingConfig
from albert_tf.data.dynamic_examples import (
    CHUNK_FEATURES,
    ExampleSettings,
    make_examples,
)

CLS, SEP = 2, 3
SEQ = 64
ROWS = 1000


@pytest.fixture(scope="module")
def chunks():
    """Chunks of 1 to 61 tokens; a third have no sentence boundary.

    The first ones have few different ids. None is split into equal halves.
    """
    rng = np.random.default_rng(0)
    rows = []
    for row in range(ROWS):
        length = 1 + row % 61
        tokens = rng.integers(5, 7 if row < 200 else 1400, length)
        sentences = rng.choice(
            np.arange(1, length),
            min(length - 1, int(rng.integers(0, 3))),
            replace=False,
        )
        tokens = tokens.tolist()
        starts = [n for n in sentences.tolist() if tokens[:n] != tokens[n:]]
        rows.append((tokens, sorted(starts)))
    return rows


@pytest.fixture(scope="module")
def examples_of(serialize, table):
    """Returns `examples_of(chunks, ...)`: a batch of examples."""

    def make(chunks, seed=0, order="sop", documents=None, **masking):
        masking = {"max_predictions_per_seq": 10} | masking
        numbers = range(len(chunks)) if documents is None else documents
        names = ("tokens", "sentence_starts", "document")
        records = [
            serialize(dict(zip(names, (*chunk, [number]), strict=True)))
            for chunk, number in zip(chunks, numbers, strict=True)
        ]
        batch = make_examples(
            tf.io.parse_example(records, CHUNK_FEATURES),
            ExampleSettings(table, SEQ, order, MaskingConfig(**masking)),
            tf.constant([seed, 0], tf.int64),
        )
        return {name: value.numpy() for name, value in batch.items()}

    return make


def test_rows_are_chunks_in_order_or_swapped(chunks, examples_of, segments_of):
    batch = examples_of(chunks)
    labels = batch["sentence_order_labels"]
    weights = batch["sentence_order_weights"]
    pairs = zip(segments_of(batch), chunks, weights, strict=True)
    for (label, a, b), (tokens, starts), weight in pairs:
        if label:
            a, b = b, a
        assert a + b == tokens
        assert weight == bool(starts)
        if starts:
            assert len(a) in starts
        else:  # one segment, without an order
            assert b == []
            assert label == 0
    assert 0.2 * ROWS < weights.sum() < 0.8 * ROWS
    # 600 draws: five standard errors are 0.1.
    assert labels[weights > 0].mean() == pytest.approx(0.5, abs=0.1)
    assert all(value.shape[0] == ROWS for value in batch.values())


def test_boundaries_are_drawn_uniformly(examples_of, segments_of):
    chunk = (list(range(10, 60)), [5, 20, 48])
    batch = examples_of([chunk] * ROWS)
    split = [len(b if label else a) for label, a, b in segments_of(batch)]
    positions, counts = np.unique(split, return_counts=True)
    assert positions.tolist() == [5, 20, 48]
    # Five standard errors of a share of a third.
    np.testing.assert_allclose(counts / ROWS, 1 / 3, atol=0.075)


def test_random_nsp_segments_are_from_other_documents(
    chunks, examples_of, segments_of
):
    documents = [row // 3 for row in range(ROWS)]
    batch = examples_of(chunks, order="nsp", documents=documents)
    labels = batch["sentence_order_labels"]
    weights = batch["sentence_order_weights"]
    assert labels[weights > 0].mean() == pytest.approx(0.5, abs=0.1)
    sources = {}  # first tokens of a suffix -> documents that have it
    for row, (tokens, _) in enumerate(chunks[200:], 200):
        for split in range(1, len(tokens)):
            key = tuple(tokens[split : split + 3])
            sources.setdefault(key, set()).add(row // 3)
    pairs = list(segments_of(batch))
    for row in range(200, ROWS):
        _, a, b = pairs[row]
        tokens, starts = chunks[row]
        assert tokens[: len(a)] == a
        assert (len(b) > 0) == weights[row] == bool(starts)
        if labels[row]:
            if len(b) >= 3 and b[0] > 6:
                assert sources[tuple(b[:3])] != {row // 3}
        else:
            assert tokens == a + b


def test_nsp_segments_of_repeated_texts_differ(examples_of, segments_of):
    kinds = [([10, 11], [1]), ([11, 10], [1])]
    chunks = [kinds[i] for i in np.random.default_rng(0).integers(2, size=400)]
    batch = examples_of(chunks, order="nsp")
    assert 0.1 < batch["sentence_order_labels"].mean() < 0.6
    for _, a, b in segments_of(batch):
        assert a != b


def test_nsp_in_a_batch_of_one_document_keeps_the_order(chunks, examples_of):
    batch = examples_of(chunks, order="nsp", documents=[0] * ROWS)
    assert not batch["sentence_order_labels"].any()


def test_without_sentence_order_there_is_one_segment(
    examples_of, put_labels_back
):
    tokens = [*range(10, 40), SEP, *range(50, 81)]
    chunks = [(tokens, [4, 31])] * ROWS
    batch = examples_of(chunks, order="none", masked_lm_prob=0.5)
    assert (put_labels_back(batch) == [CLS, *tokens, SEP]).all()
    assert batch["input_mask"].all()
    assert not batch["input_type_ids"].any()
    assert not batch["sentence_order_weights"].any()
    # The [SEP] between documents is never masked.
    assert not (batch["masked_lm_ids"] == SEP).any()
    assert (batch["masked_lm_positions"] != 31).all()


def test_draws_depend_on_the_seed_only(chunks, examples_of):
    first, other = (examples_of(chunks, seed) for seed in (1, 2))
    tf.random.set_seed(7)  # has no effect
    np.testing.assert_equal(examples_of(chunks, 1), first)
    same = {"input_mask", "masked_lm_weights", "sentence_order_weights"}
    for name in first.keys() - same:
        assert (first[name] != other[name]).any(), name
