"""Losses of embeddings, and what a batch's negatives are.

tests/interop/peers/test_sentence_transformers.py has losses and gradients of
the library whose losses they are.
"""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.finetuning.embedding.model import (
    AlbertSentenceEncoder,
    EmbeddingLoss,
    ranking_losses,
)

TEMPERATURE = 0.05


def vectors_of(batch, texts, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(0, 1, (batch, texts, 16)).astype(np.float32)


def different(batch, texts):
    return np.arange(batch * texts, dtype=np.int32).reshape(batch, texts)


@pytest.mark.parametrize(
    ("hashes", "excluded"),
    [
        ([[1, 2], [3, 4], [5, 6]], []),
        # The same positive; its two copies are no negatives of each other.
        ([[1, 2], [3, 2], [5, 6]], [(0, 1), (1, 0)]),
        # The same anchor: each of its positives is right.
        ([[1, 2], [1, 4], [5, 6]], [(0, 1), (1, 0)]),
        # A chain of sentences: the anchor itself is another one's positive.
        ([[1, 2], [2, 3], [5, 6]], [(1, 0)]),
        # The second hard negative is the first one's anchor and third's
        # positive. A row's own negative counts.
        ([[1, 2, 7], [3, 4, 1], [5, 1, 8]], [(0, 4), (0, 2), (2, 4)]),
    ],
)
def test_equal_texts_are_not_negatives(hashes, excluded):
    hashes = np.array(hashes, np.int32)
    vectors = vectors_of(*hashes.shape)
    losses, metrics = ranking_losses(vectors, hashes, TEMPERATURE)
    unit = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    candidates = np.concatenate(list(unit[:, 1:].transpose(1, 0, 2)))
    scores = np.float64(unit[:, 0] @ candidates.T) / TEMPERATURE
    for place in excluded:
        scores[place] = -np.inf
    expected = np.log(np.exp(scores).sum(1)) - scores.diagonal()
    np.testing.assert_allclose(losses, expected, rtol=1e-4, atol=1e-5)
    hits = scores.argmax(1) == np.arange(len(scores))
    np.testing.assert_array_equal(metrics["accuracy"], hits)


@pytest.fixture(scope="module")
def model(serving_config):
    return AlbertSentenceEncoder(serving_config, packed=True)


def batch_of(count, shape, labels=False):
    rng = np.random.default_rng(1)
    ids = rng.integers(5, 600, (count, *shape)).astype(np.int32)
    mask = np.ones_like(ids)
    mask[..., -2:] = 0
    batch = {
        "input_word_ids": ids,
        "input_mask": mask,
        "input_type_ids": np.zeros_like(ids),
        "text_hashes": different(count, shape[0] if len(shape) > 1 else 1),
    }
    if labels:
        batch["labels"] = np.linspace(0, 1, count, dtype=np.float32)
    return {name: tf.constant(x) for name, x in batch.items()}


def test_the_loss_encodes_the_texts_of_each_example(model):
    batch = batch_of(4, (3, 9))
    loss_fn = EmbeddingLoss(TEMPERATURE)
    loss, metrics = loss_fn(model, batch, loss_fn.normalizers(batch), None)
    vectors = np.stack(
        [
            model({n: batch[n][:, i] for n in loss_fn.INPUTS}).numpy()
            for i in range(3)
        ],
        axis=1,
    )
    expected, _ = ranking_losses(vectors, batch["text_hashes"], TEMPERATURE)
    np.testing.assert_allclose(loss, np.mean(expected), rtol=1e-4)
    assert metrics["tokens"][0] == 4 * 3 * 7
    assert metrics["accuracy"][1] == 4


def test_negatives_are_those_of_a_slice(model):
    """Of a replica's micro-batch; the loss is the mean over the batch."""
    batch = batch_of(4, (2, 9))
    loss_fn = EmbeddingLoss(TEMPERATURE)
    whole = loss_fn.normalizers(batch)
    slices = [{n: x[i : i + 2] for n, x in batch.items()} for i in (0, 2)]
    parts = [loss_fn(model, each, whole, None)[0] for each in slices]
    alone = [
        loss_fn(model, each, loss_fn.normalizers(each), None)[0]
        for each in slices
    ]
    np.testing.assert_allclose(sum(parts), np.mean(alone), rtol=1e-5)
    assert sum(parts) < loss_fn(model, batch, whole, None)[0]


def test_scored_pairs_are_regressed(model):
    batch = batch_of(4, (2, 9), labels=True)
    loss_fn = EmbeddingLoss()
    _, metrics = loss_fn(model, batch, loss_fn.normalizers(batch), None)
    assert sorted(metrics) == ["absolute_error", "tokens"]


def test_texts_are_encoded_under_two_dropout_masks(model):
    batch = batch_of(4, (9,))
    loss_fn = EmbeddingLoss(TEMPERATURE)
    seed = tf.constant([1, 2])
    seen = []

    def spy(inputs, training):
        seen.append(model(inputs, training=training))
        return seen[-1]

    _, metrics = loss_fn(spy, batch, loss_fn.normalizers(batch), seed)
    [vectors] = seen
    first, second = vectors[0::2].numpy(), vectors[1::2].numpy()
    assert not np.allclose(first, second, atol=1e-3)
    assert metrics["tokens"][0] == 2 * 4 * 7
    # Without dropout they are the same text.
    loss_fn(spy, batch, loss_fn.normalizers(batch), None)
    np.testing.assert_allclose(seen[1][0::2], seen[1][1::2], atol=1e-6)
