import tarfile
from typing import get_args

import numpy as np
import pytest
import safetensors.numpy
import sentencepiece

import albert_tf
from albert_tf.errors import InputError
from albert_tf.interop.convert import convert
from albert_tf.interop.convert_config import ConvertConfig
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.pipelines.sentence_embedder import Pooling, sif_weights

TEXTS = [
    "The value of the expression is returned.",
    "A module is imported once.",
    "",
    "Every object has an identity, a type and a value; an object's identity "
    "never changes once it has been created.",
]


@pytest.fixture(scope="module")
def embed(checkpoint):
    return albert_tf.SentenceEmbedder(checkpoint, batch_size=2)


@pytest.mark.parametrize("pooling", get_args(Pooling))
def test_vectors_are_those_of_each_text_alone(checkpoint, pooling):
    embed = albert_tf.SentenceEmbedder(
        checkpoint, pooling=pooling, normalize=False, batch_size=3
    )
    encoder = AlbertEncoder.from_pretrained(checkpoint)
    expected = []
    processor = sentencepiece.SentencePieceProcessor(
        model_proto=encoder.tokenizer.model_bytes
    )
    scores = np.array([processor.get_score(i) for i in range(600)])
    # Special and user-defined pieces have the score 0.
    scores[scores == 0] = scores[scores < 0].max()
    probabilities = np.exp(scores)
    for text in TEXTS:
        inputs = encoder.tokenizer([text], max_length=64)
        outputs = encoder(inputs)
        states = outputs["sequence_output"][0].numpy()
        ids = inputs["input_word_ids"][0].tolist()
        weights = 1e-3 / (1e-3 + probabilities[ids])
        expected.append(
            {
                "mean": states.mean(0),
                "weighted_mean": np.average(states, axis=0, weights=weights),
                "cls": states[0],
                "pooler": outputs["pooled_output"][0].numpy(),
            }[pooling]
        )
    vectors = embed(TEXTS)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected, atol=2e-5)
    np.testing.assert_allclose(embed(TEXTS[0]), expected[0], atol=2e-5)


def test_classifiers_of_keras_hub_have_vectors(stored):
    """Their task.json is not that of a fine-tuned model."""
    folder = stored / "keras_hub_classifier"
    vectors = albert_tf.SentenceEmbedder(folder)(["a text", "another"])
    assert np.ptp(vectors, axis=0).max() > 0
    with pytest.raises(InputError, match="no fine-tuned model .*--init_from="):
        albert_tf.Predictor(folder)


def test_vectors_have_length_one(embed):
    vectors = embed(iter(TEXTS))
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    similarity = embed.similarity(TEXTS[:2], TEXTS)
    assert similarity.shape == (2, 4)
    np.testing.assert_allclose(np.diag(similarity), 1, rtol=1e-5)
    np.testing.assert_allclose(similarity, vectors[:2] @ vectors.T, atol=1e-5)
    assert embed([]).shape == (0, 64)
    one = embed.similarity(TEXTS[0], TEXTS)
    np.testing.assert_allclose(one, similarity[0], atol=1e-5)
    assert embed.similarity(TEXTS[:3], TEXTS[0]).shape == (3,)
    assert embed.similarity(TEXTS[0], TEXTS[0]) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("pooling", ["weighted_mean", "cls"])
def test_saved_embedders_open(checkpoint, tmp_path, pooling):
    embed = albert_tf.SentenceEmbedder(checkpoint, pooling=pooling)
    for _ in range(2):  # It may be saved again.
        embed.save_pretrained(tmp_path / "saved")
    again = albert_tf.SentenceEmbedder(tmp_path / "saved")
    np.testing.assert_array_equal(again(TEXTS), embed(TEXTS))
    (tmp_path / "saved/sentence_bert_config.json").write_text(
        '{"max_seq_length": 5}'
    )
    shorter = albert_tf.SentenceEmbedder(tmp_path / "saved")
    assert shorter.max_length == 5
    pooled = albert_tf.SentenceEmbedder(checkpoint, pooling="pooler")
    with pytest.raises(InputError, match="pooling=pooler is not part of"):
        pooled.save_pretrained(tmp_path / "pooled")
    assert not (tmp_path / "pooled").exists()


@pytest.mark.parametrize("pooling", ["weighted_mean", "cls"])
def test_forms_of_a_saved_embedder_have_its_vectors(
    checkpoint, tmp_path, pooling
):
    embed = albert_tf.SentenceEmbedder(checkpoint, pooling=pooling)
    saved = tmp_path / "saved"
    embed.save_pretrained(saved)
    (saved / "sentence_bert_config.json").write_text('{"max_seq_length": 9}')
    expected = albert_tf.SentenceEmbedder(saved)(TEXTS)
    with tarfile.open(tmp_path / "saved.tar.gz", "w:gz") as archive:
        archive.add(saved, "saved")
    convert(ConvertConfig(input=saved, output=tmp_path / "converted"))
    for form in ("saved.tar.gz", "saved/model.safetensors", "converted"):
        other = albert_tf.SentenceEmbedder(tmp_path / form)
        assert other.max_length == 9
        np.testing.assert_array_equal(other(TEXTS), expected)
    # Its other model has no part in what replaces it.
    AlbertEncoder.from_pretrained(checkpoint).save_pretrained(saved)
    means = albert_tf.SentenceEmbedder(checkpoint)
    np.testing.assert_array_equal(
        albert_tf.SentenceEmbedder(saved)(TEXTS), means(TEXTS)
    )


def test_weights_need_probabilities_of_all_tokens(checkpoint, tmp_path):
    pieces = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n"
    with pytest.raises(InputError, match="needs the probabilities of a unigr"):
        sif_weights(albert_tf.AlbertWordPieceTokenizer(pieces))
    embed = albert_tf.SentenceEmbedder(checkpoint, pooling="weighted_mean")
    embed.save_pretrained(tmp_path / "saved")
    path = tmp_path / "saved/1_WordWeights/model.safetensors"
    one = {"emb_layer.weight": np.ones((1, 1), np.float32)}
    safetensors.numpy.save_file(one, path)
    with pytest.raises(InputError, match="weights of 1 tokens, but its vocab"):
        albert_tf.SentenceEmbedder(tmp_path / "saved")


def test_fill_mask_and_vectors_share_weights(fill, embed, tmp_path):
    shared = albert_tf.SentenceEmbedder(fill, batch_size=2)
    np.testing.assert_allclose(shared(TEXTS), embed(TEXTS), atol=1e-6)
    shared.save_pretrained(tmp_path / "saved")
    again = albert_tf.SentenceEmbedder(tmp_path / "saved")
    np.testing.assert_allclose(again(TEXTS), embed(TEXTS), atol=1e-6)
    for settings in ({"pooling": "pooler"}, {"dtype": "mixed_bfloat16"}):
        with pytest.raises(InputError, match="not supported with a FillMask"):
            albert_tf.SentenceEmbedder(fill, **settings)


@pytest.mark.parametrize("texts", [3, None, [3], ["a", None], b"a", {"a": 1}])
def test_vectors_of_what_is_no_text(embed, texts):
    with pytest.raises(InputError, match="must be a "):
        embed(texts)
    with pytest.raises(InputError, match="must be a "):
        embed.similarity("a", texts)


def test_chunks_of_one_text_are_refused(embed):
    with pytest.raises(InputError, match="texts='abc' must be a list of texts"):
        next(embed.chunks("abc"))


def test_chunks_of_any_number_of_texts(embed, monkeypatch):
    monkeypatch.setattr("albert_tf.pipelines.sentence_embedder.CHUNK", 3)
    chunks = list(embed.chunks(f"text {i}" for i in range(7)))
    assert [len(x) for x in chunks] == [3, 3, 1]
    np.testing.assert_allclose(
        np.concatenate(chunks),
        embed([f"text {i}" for i in range(7)]),
        atol=1e-5,
    )
