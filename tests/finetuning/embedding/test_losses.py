"""Losses and gradients against PyTorch's, and what a batch's negatives are."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.finetuning.embedding.model import (
    AlbertSentenceEncoder,
    EmbeddingLoss,
    cosine_losses,
    ranking_losses,
)

TEMPERATURE = 0.05


def vectors_of(batch, texts, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(0, 1, (batch, texts, 16)).astype(np.float32)


def different(batch, texts):
    return np.arange(batch * texts, dtype=np.int32).reshape(batch, texts)


def losses_and_gradients(function, vectors, *arguments):
    vectors = tf.constant(vectors)
    with tf.GradientTape() as tape:
        tape.watch(vectors)
        losses, metrics = function(vectors, *arguments)
        total = tf.reduce_sum(losses)
    return losses.numpy(), tape.gradient(total, vectors).numpy(), metrics


@pytest.mark.peer
@pytest.mark.parametrize("texts", [2, 3])
def test_ranking_is_that_of_sentence_transformers(texts):
    """Its `MultipleNegativesRankingLoss`, written in PyTorch."""
    torch = pytest.importorskip("torch")
    vectors = vectors_of(5, texts)
    losses, gradients, metrics = losses_and_gradients(
        ranking_losses, vectors, different(5, texts), TEMPERATURE
    )
    leaf = torch.tensor(vectors, requires_grad=True)
    anchors, *others = torch.nn.functional.normalize(leaf, dim=-1).unbind(1)
    scores = anchors @ torch.cat(others).T * 20.0
    expected = torch.nn.functional.cross_entropy(
        scores, torch.arange(5), reduction="none"
    )
    expected.sum().backward()
    # Sums in float32, of logits up to 20.
    np.testing.assert_allclose(losses, expected.detach(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(gradients, leaf.grad, rtol=1e-3, atol=1e-4)
    hits = scores.argmax(1) == torch.arange(5)
    np.testing.assert_array_equal(metrics["accuracy"], hits.float())


@pytest.mark.peer
def test_cosine_is_that_of_sentence_transformers():
    """Its `CosineSimilarityLoss`, written in PyTorch."""
    torch = pytest.importorskip("torch")
    vectors = vectors_of(5, 2)
    targets = np.linspace(-1, 1, 5, dtype=np.float32)
    losses, gradients, metrics = losses_and_gradients(
        cosine_losses, vectors, targets
    )
    leaf = torch.tensor(vectors, requires_grad=True)
    cosines = torch.cosine_similarity(leaf[:, 0], leaf[:, 1])
    expected = (cosines - torch.tensor(targets)) ** 2
    expected.sum().backward()
    np.testing.assert_allclose(losses, expected.detach(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(gradients, leaf.grad, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        metrics["absolute_error"] ** 2, losses, rtol=1e-5
    )


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
        (
            [[1, 2, 7], [3, 4, 1], [5, 1, 8]],
            [(0, 4), (0, 2), (2, 4)],
        ),
    ],
)
def test_equal_texts_are_not_negatives(hashes, excluded):
    hashes = np.array(hashes, np.int32)
    vectors = vectors_of(*hashes.shape)
    losses, _, _ = losses_and_gradients(
        ranking_losses, vectors, hashes, TEMPERATURE
    )
    unit = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    candidates = np.concatenate(list(unit[:, 1:].transpose(1, 0, 2)))
    scores = np.float64(unit[:, 0] @ candidates.T) / TEMPERATURE
    for place in excluded:
        scores[place] = -np.inf
    expected = np.log(np.exp(scores).sum(1)) - scores.diagonal()
    np.testing.assert_allclose(losses, expected, rtol=1e-4, atol=1e-5)


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
