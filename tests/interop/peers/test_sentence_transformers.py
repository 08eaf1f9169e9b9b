"""Embeddings and their losses against sentence-transformers."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.finetuning.embedding.model import (
    AlbertSentenceEncoder,
    cosine_losses,
    ranking_losses,
)
from albert_tf.finetuning.model_folder import save_model
from albert_tf.finetuning.registry import known_task, make_task_type
from albert_tf.pipelines.sentence_embedder import SentenceEmbedder

pytestmark = pytest.mark.peer

TEXTS = ["The name of a class.", "x", "\u00c9tude na\u00efve: 12,345 times."]


@pytest.fixture(scope="module")
def peer():
    """The library, which is imported for seconds only where it is tested."""
    return pytest.importorskip("sentence_transformers")


@pytest.fixture(scope="module")
def folder(checkpoint, tokenizer, tmp_path_factory):
    """A model as `albert finetune --task=embedding` saves it."""
    model = AlbertSentenceEncoder.from_pretrained(checkpoint)
    task_config = known_task("embedding")
    folder = tmp_path_factory.mktemp("embedding") / "model"
    task_type = make_task_type(task_config, tokenizer)
    save_model(folder, model, task_type, task_config)
    return folder


@pytest.fixture(scope="module")
def theirs(peer, folder):
    return peer.SentenceTransformer(str(folder), device="cpu")


def test_it_opens_the_folder_with_mean_pooling(folder, theirs):
    expected = theirs.encode(TEXTS, normalize_embeddings=True)
    # Products and sums in float32, in another order.
    np.testing.assert_allclose(
        SentenceEmbedder(folder)(TEXTS), expected, rtol=0, atol=1e-5
    )


@pytest.mark.parametrize("pooling", ["mean", "weighted_mean", "cls"])
@pytest.mark.parametrize("normalize", [True, False])
def test_it_opens_a_saved_embedder(
    peer, checkpoint, tmp_path, pooling, normalize
):
    settings = {"pooling": pooling, "normalize": normalize}
    ours = SentenceEmbedder(checkpoint, **settings)
    ours.save_pretrained(tmp_path / "ours")
    theirs = peer.SentenceTransformer(str(tmp_path / "ours"), device="cpu")
    assert theirs.max_seq_length == ours.max_length
    texts = [*TEXTS, "The name of a class. " * 20]
    np.testing.assert_allclose(
        theirs.encode(texts), ours(texts), rtol=0, atol=1e-5
    )


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_its_models_open(peer, checkpoint, tmp_path, pooling):
    models = peer.sentence_transformer.modules
    transformer = models.Transformer(str(checkpoint), max_seq_length=10)
    pool = models.Pooling(transformer.get_embedding_dimension(), pooling)
    theirs = peer.SentenceTransformer(
        modules=[transformer, pool, models.Normalize()], device="cpu"
    )
    theirs.save(str(tmp_path / "theirs"))
    ours = SentenceEmbedder(tmp_path / "theirs")
    assert ours.max_length == 10
    texts = [*TEXTS, "The name of a class. " * 20]
    np.testing.assert_allclose(
        ours(texts), theirs.encode(texts), rtol=0, atol=1e-5
    )


def test_its_word_weights_open(peer, checkpoint, tokenizer, tmp_path):
    models = peer.sentence_transformer.modules
    transformer = models.Transformer(str(checkpoint))
    pieces = [tokenizer.id_to_piece(i) for i in range(tokenizer.vocab_size)]
    weights = np.random.default_rng(0).uniform(0, 3, len(pieces)).tolist()
    theirs = peer.SentenceTransformer(
        modules=[
            transformer,
            models.WordWeights(pieces, dict(zip(pieces, weights, strict=True))),
            models.Pooling(transformer.get_embedding_dimension(), "mean"),
        ],
        device="cpu",
    )
    theirs.save(str(tmp_path / "theirs"))
    ours = SentenceEmbedder(tmp_path / "theirs", normalize=False)
    np.testing.assert_allclose(
        ours(TEXTS), theirs.encode(TEXTS), rtol=0, atol=1e-5
    )


def assert_same_losses(theirs, function, vectors, targets, *arguments):
    """Compares mean losses and their gradients; returns ours, and metrics."""
    import torch

    ours = tf.constant(vectors)
    with tf.GradientTape() as tape:
        tape.watch(ours)
        losses, metrics = function(ours, *arguments)
        loss = tf.reduce_mean(losses)
    leaf = torch.tensor(vectors, requires_grad=True)
    targets = None if targets is None else torch.tensor(targets)
    expected = theirs.compute_loss_from_embeddings(leaf.unbind(1), targets)
    expected.backward()
    assert float(loss) == pytest.approx(expected.item(), rel=1e-5)
    # Sums in float32, of logits up to 20.
    np.testing.assert_allclose(
        tape.gradient(loss, ours), leaf.grad, rtol=1e-3, atol=2e-5
    )
    return losses, metrics


def random_vectors(texts):
    vectors = np.random.default_rng(0).normal(0, 1, (5, texts, 16))
    return vectors.astype(np.float32)


@pytest.mark.parametrize("texts", [2, 3])
def test_ranking_losses(peer, theirs, texts):
    losses = pytest.importorskip("sentence_transformers.losses")
    hashes = np.arange(5 * texts, dtype=np.int32).reshape(5, texts)
    assert_same_losses(
        losses.MultipleNegativesRankingLoss(theirs),
        ranking_losses,
        random_vectors(texts),
        None,
        *(hashes, 0.05),
    )


def test_cosine_losses(peer, theirs):
    losses = pytest.importorskip("sentence_transformers.losses")
    targets = np.linspace(-1, 1, 5, dtype=np.float32)
    found, metrics = assert_same_losses(
        losses.CosineSimilarityLoss(theirs),
        cosine_losses,
        random_vectors(2),
        targets,
        targets,
    )
    np.testing.assert_allclose(metrics["absolute_error"] ** 2, found, rtol=1e-5)
