"""TF-Hub's contract of preprocessors, on a published export and on ours.

test_contract.py does the same for encoders. Both exports have the same
vocabulary; test_preprocessor.py has quick tests of ours.
"""

import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401

from albert_tf.exporting.hub_layer import HubLayer
from albert_tf.exporting.preprocessor import export_preprocessor
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer

pytestmark = pytest.mark.long

LENGTH = 12
INPUTS = {"input_word_ids", "input_mask", "input_type_ids"}
TEXTS = ["the cat sat on a mat", "", "A DOG! " * 9, "caf\u00e9"]
SHARP_S = "Stra\u00dfe"


@pytest.fixture(scope="module")
def vocabulary(model_garden):
    return model_garden / "spiece.model"


@pytest.fixture(scope="module")
def published_path(model_garden, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model-garden")
    shutil.unpack_archive(model_garden / "tf_hub_2_preprocessor.tar.gz", folder)
    return folder / "tf_hub_2_preprocessor"


@pytest.fixture(scope="module")
def published(published_path):
    return tf.saved_model.load(published_path)


@pytest.fixture(scope="module")
def ours(vocabulary, tmp_path_factory):
    path = tmp_path_factory.mktemp("ours") / "preprocessor"
    tokenizer = AlbertTokenizer.from_file(vocabulary)
    export_preprocessor(tokenizer, path, seq_length=LENGTH)
    return tf.saved_model.load(path)


def same(actual, expected):
    assert set(actual) == set(expected) == INPUTS
    for name in INPUTS:
        assert actual[name].dtype == expected[name].dtype == tf.int32
        np.testing.assert_array_equal(actual[name], expected[name], name)


def test_rows_are_the_same(published, ours):
    texts = tf.constant(TEXTS)
    same(ours(texts), published(texts))
    assert ours(texts)["input_mask"].shape == (len(TEXTS), LENGTH)


def test_tokens_are_the_same(published, ours):
    texts = tf.constant(TEXTS)
    expected = published.tokenize(texts)
    tokens = ours.tokenize(texts)
    assert tokens.dtype == expected.dtype == tf.int32
    assert tokens.to_list() == expected.to_list()
    assert sum(map(len, tokens.to_list())) > 20


def test_special_tokens_are_the_same(published, ours):
    expected = published.tokenize.get_special_tokens_dict()
    found = ours.tokenize.get_special_tokens_dict()
    assert {k: int(v) for k, v in found.items()} == {
        k: int(v) for k, v in expected.items()
    }


def test_packing_is_the_same(published, ours):
    first = ours.tokenize(tf.constant(TEXTS))
    for segments in ([first], [first, first[::-1]]):
        for arguments in ({}, {"seq_length": 6}):
            same(
                ours.bert_pack_inputs(segments, **arguments),
                published.bert_pack_inputs(segments, **arguments),
            )
    for preprocessor in (published, ours):
        with pytest.raises(ValueError, match="Could not find matching"):
            preprocessor.bert_pack_inputs([first] * 3)


# The rest is about problems of the published preprocessors that ours solve.


def test_other_lengths_on_the_root(published, ours):
    texts = tf.constant(TEXTS)
    with pytest.raises(TypeError):
        published(texts, seq_length=6)
    tokens = [published.tokenize(texts)]
    same(
        ours(texts, seq_length=6),
        published.bert_pack_inputs(tokens, seq_length=6),
    )


def test_offsets_with_accents_stripped(published, ours):
    assert not hasattr(published, "tokenize_with_offsets")
    text = "a caf\u00e9"
    ids, starts, limits = ours.tokenize_with_offsets(tf.constant([text]))
    assert ids.to_list() == ours.tokenize(tf.constant([text])).to_list()
    # In bytes: the last piece includes both bytes of the accented letter.
    assert limits.to_list()[0][-1] == len(text.encode())
    assert starts.to_list()[0][0] == 0


def test_served_as_trained(published, ours, vocabulary):
    """`create-data` tokenizes by AlbertTokenizer."""
    trained = AlbertTokenizer.from_file(vocabulary).encode([SHARP_S])
    assert ours.tokenize(tf.constant([SHARP_S])).to_list() == trained
    assert published.tokenize(tf.constant([SHARP_S])).to_list() != trained


def test_published_ones_in_our_layer(published_path, model_garden_path):
    """Strings to vectors, with the exports of Model Garden only."""
    strings = keras.Input((), dtype="string")
    packed = HubLayer(published_path)(strings)
    encoder = HubLayer(model_garden_path)
    pooled = encoder(packed)["pooled_output"]
    model = keras.Model(strings, keras.layers.Dense(1)(pooled))
    assert len(model.trainable_weights) == 25 + 2
    before = [weight.numpy() for weight in encoder.weights]
    model.compile("adam", "mse")
    model.fit(tf.constant(TEXTS), np.arange(4.0), verbose=0)
    moved = [
        np.any(weight.numpy() != value)
        for weight, value in zip(encoder.weights, before, strict=True)
    ]
    assert all(moved)

    # Keras 3 does not pass ragged tensors between layers.
    tokens = HubLayer(published_path, endpoint="tokenize")(strings)
    pack = HubLayer(published_path, endpoint="bert_pack_inputs")
    with pytest.raises(ValueError, match="Could not find matching"):
        pack([tokens])
