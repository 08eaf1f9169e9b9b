"""Embeddings and their losses against sentence-transformers."""

import numpy as np
import pytest

from albert_tf.finetuning.embedding.model import (
    AlbertSentenceEncoder,
    cosine_losses,
    ranking_losses,
)
from albert_tf.finetuning.model_folder import save_model
from albert_tf.finetuning.registry import known_task, make_task_type
from albert_tf.pipelines import SentenceEmbedder

peer = pytest.importorskip(
    "sentence_transformers", reason="sentence-transformers is not installed"
)
losses = pytest.importorskip("sentence_transformers.losses")
torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peer

TEXTS = ["The name of a class.", "x", "\u00c9tude na\u00efve: 12,345 times."]


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
def theirs(folder):
    return peer.SentenceTransformer(str(folder), device="cpu")


def test_it_opens_the_folder_with_mean_pooling(folder, theirs):
    expected = theirs.encode(TEXTS, normalize_embeddings=True)
    # Products and sums in float32, in another order.
    np.testing.assert_allclose(
        SentenceEmbedder(folder)(TEXTS), expected, rtol=0, atol=1e-5
    )


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("normalize", [True, False])
def test_it_opens_a_saved_embedder(checkpoint, tmp_path, pooling, normalize):
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
def test_its_models_open(checkpoint, tmp_path, pooling):
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


def test_losses(theirs):
    vectors = np.random.default_rng(0).normal(0, 1, (5, 3, 16))
    vectors = vectors.astype(np.float32)
    parts = [torch.tensor(vectors[:, i]) for i in range(3)]
    loss = losses.MultipleNegativesRankingLoss(theirs)
    hashes = np.arange(15, dtype=np.int32).reshape(5, 3)
    ours, _ = ranking_losses(vectors, hashes, 0.05)
    expected = loss.compute_loss_from_embeddings(parts, None)
    assert np.mean(ours) == pytest.approx(float(expected), rel=1e-5)

    targets = np.linspace(0, 1, 5, dtype=np.float32)
    loss = losses.CosineSimilarityLoss(theirs)
    ours, _ = cosine_losses(vectors[:, :2], targets)
    expected = loss.compute_loss_from_embeddings(
        parts[:2], torch.tensor(targets)
    )
    assert np.mean(ours) == pytest.approx(float(expected), rel=1e-5)
