import shutil
import tarfile
from typing import get_args

import keras
import numpy as np
import pytest
import safetensors.numpy
import sentencepiece

import albert_tf
from albert_tf.errors import InputError
from albert_tf.finetuning.text_classification.model import AlbertClassifier
from albert_tf.interop.convert import convert
from albert_tf.interop.convert_config import ConvertConfig
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.pipelines.sentence_embedder import Pooling, sif_weights
from albert_tf.pretrained_models import vocabulary_path

TEXTS = [
    "The value of the expression is returned.",
    "A module is imported once.",
    "",
    "Every object has an identity, a type and a value; an object's identity "
    "never changes once it has been created.",
]


@pytest.fixture(scope="module")
def fill(checkpoint):
    return albert_tf.FillMask(checkpoint, batch_size=2)


@pytest.fixture(scope="module")
def embed(checkpoint):
    return albert_tf.SentenceEmbedder(checkpoint, batch_size=2)


def test_masks_are_filled_with_the_most_probable_tokens(checkpoint, fill):
    text = "The [MASK] is imported once."
    fills = fill(text, top_k=3)
    model = AlbertPretrainer.from_pretrained(checkpoint)
    tokenizer = model.tokenizer.with_settings(match_special_tokens=True)
    inputs = tokenizer([text])
    (position,) = np.flatnonzero(
        inputs["input_word_ids"][0] == tokenizer.mask_id
    )
    logits = model({**inputs, "masked_lm_positions": np.array([[position]])})
    scores = keras.ops.softmax(logits["mlm_logits"][0, 0]).numpy()
    best = np.argsort(-scores)[:3]
    assert [x["token"] for x in fills] == best.tolist()
    # Rows without padding are summed in another order.
    np.testing.assert_allclose(
        [x["score"] for x in fills], scores[best], rtol=1e-4
    )
    inputs["input_word_ids"][0, position] = best[0]
    ids = inputs["input_word_ids"][0, 1:-1]
    assert fills[0]["sequence"] == tokenizer.decode(ids)
    assert fills[0]["token_str"] == tokenizer.decode([best[0]])


def test_several_masks_and_texts(fill):
    one, two = "A [MASK] is one.", "The [MASK] of a [MASK] is here."
    filled = fill([one, two], top_k=2)
    assert [len(x) for x in filled[1]] == [2, 2]
    for mine, alone in zip(filled[0], fill(one, top_k=2), strict=True):
        assert mine["token"] == alone["token"]
        np.testing.assert_allclose(mine["score"], alone["score"], rtol=1e-4)
    assert fill([]) == []


@pytest.mark.parametrize(
    ("texts", "top_k", "message"),
    [
        (["A [MASK].", "nothing"], 5, r"the text 'nothing' has no \[MASK\]"),
        (["long " * 80 + "[MASK]"], 5, "1 are not within the first 64 tokens"),
        (["[MASK] " + "long " * 80 + "[MASK]"], 5, r"2 \[MASK\], of which 1 "),
        (["A [MASK]."], 0, r"top_k=0 must be in \[1, 600\]"),
        ([3], 1, r"texts\[0\]=3 must be a text, not int"),
        (3, 1, "texts=3 must be a text or a list of texts"),
        (None, 1, "texts=None must be a text or a list of texts"),
        (b"A [MASK].", 1, "must be a text or a list of texts"),
        ("A [MASK].", "a", "top_k='a' must be an integer"),
        ("A [MASK].", 2.0, "top_k=2.0 must be an integer"),
    ],
)
def test_invalid_arguments_of_fill_mask(fill, texts, top_k, message):
    with pytest.raises(InputError, match=message):
        fill(texts, top_k=top_k)


def test_rows_of_the_table_that_are_no_pieces(checkpoint, tmp_path):
    """Tables are often padded, to a multiple of 64 for example."""
    tokenizer = albert_tf.load_tokenizer(checkpoint)
    config = AlbertEncoder.from_pretrained(checkpoint).config
    model = AlbertPretrainer(config.replace(vocab_size=640))
    model.save_pretrained(tmp_path / "padded", tokenizer)
    padded = albert_tf.FillMask(tmp_path / "padded")
    fills = padded("A [MASK].", top_k=600)
    assert {x["token"] for x in fills} == set(range(600))
    assert sum(x["score"] for x in fills) == pytest.approx(1, abs=1e-4)
    with pytest.raises(InputError, match=r"top_k=601 must be in \[1, 600\]"):
        padded("A [MASK].", top_k=601)


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


@pytest.mark.parametrize(
    "pipeline", [albert_tf.FillMask, albert_tf.SentenceEmbedder]
)
def test_a_vocabulary_that_is_too_large_is_refused(
    checkpoint, tmp_path, pipeline
):
    shutil.copytree(checkpoint, tmp_path / "model")
    shutil.copy(vocabulary_path("albert_tiny_en"), tmp_path / "model")
    (tmp_path / "model/tokenizer_config.json").unlink()
    (tmp_path / "model/tokenizer.json").unlink(missing_ok=True)
    with pytest.raises(InputError, match="10000 pieces, but the model's vocab"):
        pipeline(tmp_path / "model")


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


def test_probability_that_pairs_are_swapped(checkpoint):
    order = albert_tf.SentenceOrder(checkpoint, batch_size=2)
    pairs = [(TEXTS[0], TEXTS[1]), (TEXTS[3], TEXTS[0]), ("a", "b")]
    swapped = order(pairs)
    model = AlbertPretrainer.from_pretrained(checkpoint)
    for (first, second), probability in zip(pairs, swapped, strict=True):
        inputs = model.tokenizer([first], [second], max_length=64)
        logits = model({**inputs, "masked_lm_positions": np.array([[0]])})[
            "sop_logits"
        ]
        expected = keras.ops.softmax(logits)[0, 1]
        np.testing.assert_allclose(probability, expected, atol=1e-5)
    assert order([]).shape == (0,)
    for pair in pairs[0], list(pairs[0]):
        one = order(pair)
        assert (one.shape, one.dtype) == ((), np.float32)
        np.testing.assert_allclose(one, swapped[0], atol=1e-5)
    for wrong in ([("a", "b", "c")], ["ab", "cd", "ef"], [("a", 1)], [3]):
        with pytest.raises(InputError, match="must be a pair of texts"):
            order(wrong)
    for wrong in ("ab", None):
        with pytest.raises(InputError, match="must be a list of pairs"):
            order(wrong)


def test_models_without_what_is_needed(checkpoint, tmp_path):
    model = AlbertPretrainer.from_pretrained(checkpoint, sop_head=False)
    model.save_pretrained(tmp_path / "mlm", model.tokenizer)
    albert_tf.FillMask(tmp_path / "mlm")
    with pytest.raises(InputError, match="has no sop_head; give a model that"):
        albert_tf.SentenceOrder(tmp_path / "mlm")
    classifier = AlbertClassifier(model.config, num_labels=2)
    classifier.save_pretrained(tmp_path / "tuned", model.tokenizer)
    with pytest.raises(InputError, match="has no mlm_head; give a model that"):
        albert_tf.FillMask(tmp_path / "tuned")
    encoder = AlbertEncoder(model.config, pooler=False)
    encoder.save_pretrained(tmp_path / "no_pooler", model.tokenizer)
    albert_tf.SentenceEmbedder(tmp_path / "no_pooler")
    with pytest.raises(InputError, match="has no pooler; use another pooling"):
        albert_tf.SentenceEmbedder(tmp_path / "no_pooler", pooling="pooler")
    AlbertPretrainer(model.config).save_pretrained(tmp_path / "bare")
    for pipeline in (
        albert_tf.FillMask,
        albert_tf.SentenceOrder,
        albert_tf.SentenceEmbedder,
    ):
        with pytest.raises(InputError, match="bare has no tokenizer"):
            pipeline(tmp_path / "bare")
    with pytest.raises(InputError, match="pooling='max' must be"):
        albert_tf.SentenceEmbedder(checkpoint, pooling="max")
    with pytest.raises(InputError, match="batch_size='a' must be an integer"):
        albert_tf.FillMask(checkpoint, batch_size="a")
    with pytest.raises(InputError, match="batch_size=0 must be positive"):
        albert_tf.FillMask(checkpoint, batch_size=0)


@pytest.mark.parametrize("path", [None, 3, b"model", ["model"]])
def test_models_that_are_no_path(path):
    loaders = (
        albert_tf.FillMask,
        albert_tf.SentenceOrder,
        albert_tf.SentenceEmbedder,
        AlbertEncoder.from_pretrained,
        albert_tf.load_tokenizer,
        albert_tf.AlbertTokenizer.from_file,
    )
    for load in loaders:
        with pytest.raises(InputError, match="path=.* must be a string or a p"):
            load(path)


@pytest.mark.peer
def test_fill_mask_equals_transformers(checkpoint, fill):
    transformers = pytest.importorskip("transformers")
    theirs = transformers.pipeline(
        "fill-mask",
        transformers.AlbertForMaskedLM.from_pretrained(checkpoint),
        tokenizer=transformers.AutoTokenizer.from_pretrained(checkpoint),
        top_k=4,
    )
    text = "the [MASK] of the expression is returned."
    for mine, their in zip(fill(text, top_k=4), theirs(text), strict=True):
        assert mine["token"] == their["token"]
        np.testing.assert_allclose(mine["score"], their["score"], rtol=1e-4)
        assert mine["token_str"] == their["token_str"]
        assert mine["sequence"] == their["sequence"]
