import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.exporting.check_program import compare
from albert_tf.exporting.encoder import export_encoder
from albert_tf.exporting.text_encoder import export_text_encoder
from albert_tf.finetuning.text_classification.model import AlbertClassifier
from albert_tf.models.encoder import AlbertEncoder

TEXTS = [
    "the good movie",
    "",
    "A b\u00e0d FILM, 12,345 and 7,000. I've seen it",
    "\u65e5\u672c\u8a9e \ufb01lm Stra\u00dfe",
    "really the bad plot was 1,000 times bad. " * 5,
]
# Other than the defaults, so that a test fails where they get lost.
SETTINGS = {"do_lower_case": False, "digit_comma": "off"}


@pytest.fixture(scope="module")
def tokenizer_with_settings(tokenizer):
    return tokenizer.with_settings(**SETTINGS)


@pytest.fixture(scope="module")
def model(config, perturb):
    return perturb(AlbertEncoder(config.replace(num_hidden_layers=1)), 1)


@pytest.fixture(scope="module")
def path(model, tokenizer_with_settings, tmp_path_factory):
    """An export that packs rows; test_programs.py has one that pads them."""
    path = tmp_path_factory.mktemp("text_encoders") / "packed"
    export_text_encoder(model, path, tokenizer=tokenizer_with_settings)
    return path


@pytest.fixture(scope="module")
def encoder(path):
    return tf.saved_model.load(path)


@pytest.fixture(scope="module")
def expected(model, tokenizer_with_settings):
    """Returns `expected(pairs, max_length)`: outputs of tokenizer and model."""

    def make(pairs=None, max_length=40):
        inputs = tokenizer_with_settings(TEXTS, pairs, max_length=max_length)
        outputs = model(inputs)
        states = np.asarray(outputs["sequence_output"])
        real = inputs["input_mask"].astype(bool)
        return {
            **inputs,
            "pooled_output": outputs["pooled_output"],
            "default": outputs["pooled_output"],
            "mean_output": np.array(
                [rows[m].mean(0) for rows, m in zip(states, real, strict=True)]
            ),
            "sequence_output": states,
        }

    return make


def same(found, expected):
    assert set(found) == set(expected)
    compare(found, expected, expected["input_mask"])


def test_texts_and_pairs_of_any_length(encoder, expected):
    texts = tf.constant(TEXTS)
    pairs = [texts, texts[::-1]]
    same(encoder(texts), expected())
    for length in (7, tf.constant(7)):
        same(encoder(texts, seq_length=length), expected(max_length=7))
    same(encoder(pairs, training=False), expected(TEXTS[::-1]))
    # One would be paired with each.
    with pytest.raises(tf.errors.InvalidArgumentError, match="same batch"):
        encoder([texts, texts[:1]])
    same(encoder(pairs, seq_length=7), expected(TEXTS[::-1], 7))
    # Alone, a text has no padding.
    alone = encoder(texts[:1])
    compare(alone, {"mean_output": expected()["mean_output"][:1]})
    assert np.all(alone["input_mask"] == 1)


def test_padding_is_zero(encoder):
    outputs = encoder(tf.constant(TEXTS))
    padding = 1 - outputs["input_mask"].numpy()[:, :, None]
    assert not np.any(outputs["sequence_output"] * padding)


def test_empty_batches_and_texts(encoder):
    nothing = tf.constant([], tf.string)
    for inputs in (nothing, [nothing, nothing]):
        outputs = encoder(inputs)
        assert outputs["mean_output"].shape == [0, 16]
        assert outputs["sequence_output"].shape[0] == 0
    empty = encoder(tf.constant([""]))
    assert empty["sequence_output"].shape == [1, 2, 16]
    assert np.isfinite(empty["mean_output"]).all()
    with pytest.raises(
        (ValueError, tf.errors.InvalidArgumentError),
        match="max_position_embeddings",
    ):
        encoder(tf.constant(["good " * 99]), seq_length=41)
    # Less than [CLS] and [SEP].
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="must be at least"
    ):
        encoder(tf.constant(["good"]), seq_length=1)


@pytest.mark.long
def test_dropout_and_gradients(encoder, has_dropout):
    def is_random(call, **arguments):
        return has_dropout(lambda: call(texts, **arguments)["mean_output"])

    texts = tf.constant(TEXTS)
    assert not is_random(encoder)
    assert is_random(encoder, training=True)
    assert is_random(encoder, training=True, seq_length=7)
    assert is_random(encoder.call_training)
    with tf.GradientTape() as tape:
        outputs = encoder([texts, texts], training=True)
        loss = tf.reduce_sum(outputs["pooled_output"] ** 2)
    gradients = tape.gradient(loss, encoder.trainable_variables)
    assert len(gradients) == 25
    assert all(np.any(tf.convert_to_tensor(g) != 0) for g in gradients)


def test_tokenize(encoder, expected):
    tokens = encoder.tokenize(tf.constant(TEXTS))
    assert tokens.dtype == tf.int32
    ids = expected()["input_word_ids"]
    assert tokens[0].numpy().tolist() == ids[0][ids[0] > 3].tolist()
    special = encoder.tokenize.get_special_tokens_dict()
    assert int(special["vocab_size"]) == 90


@pytest.mark.parametrize("write", [export_encoder, export_text_encoder])
def test_models_that_do_not_fit(config, tokenizer, tmp_path, write):
    def export(model):
        write(model, tmp_path / "new", tokenizer=tokenizer)

    with pytest.raises(InputError, match="created with pooler=False"):
        export(AlbertEncoder(config, pooler=False))
    with pytest.raises(TypeError, match="not AlbertClassifier"):
        export(AlbertClassifier(config, 2))
    small = config.to_dict() | {"vocab_size": 80}
    with pytest.raises(InputError, match="90 pieces, but the model's"):
        export(AlbertEncoder(type(config).from_dict(small)))
    assert not (tmp_path / "new").exists()


def test_another_backend(model, tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    message = "needs KERAS_BACKEND=tensorflow, not 'jax'"
    with pytest.raises(InputError, match=message):
        export_text_encoder(model, tmp_path / "new", tokenizer=tokenizer)
    assert not (tmp_path / "new").exists()
