import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.export.hub_layer import HubLayer
from albert_tf.export.manifest import weights_fingerprint
from albert_tf.export.text_encoder import export_text_encoder
from albert_tf.models.classifier import AlbertClassifier
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.text.tokenizer import AlbertTokenizer

TEXTS = [
    "the good movie",
    "",
    "A b\u00e0d FILM, 12,345 and 7,000. I've seen it",
    "\u65e5\u672c\u8a9e \ufb01lm Stra\u00dfe",
    "really the bad plot was 1,000 times bad. " * 5,
]
# Not the defaults, so that it shows where they get lost.
SETTINGS = {"do_lower_case": False, "digit_comma": "off"}


@pytest.fixture(scope="module")
def paths(pretrainer, tokenizer_model, tmp_path_factory):
    """An export with packed rows, and one with padded ones."""
    folder = tmp_path_factory.mktemp("text_encoders")
    for name, packed in (("packed", {}), ("padded", {"packed": False})):
        export_text_encoder(
            pretrainer,
            folder / name,
            tokenizer_model=tokenizer_model,
            **packed,
            **SETTINGS,
        )
    return folder / "packed", folder / "padded"


@pytest.fixture(scope="module")
def expected(pretrainer, tokenizer_model, tmp_path_factory):
    tokenizer = AlbertTokenizer.from_file(tokenizer_model, **SETTINGS)
    values = {
        "strings": np.array(TEXTS),
        "weights": len(pretrainer.encoder.weights),
    }
    for case, pairs, length in (
        ("texts", None, 40),
        ("texts_7", None, 7),
        ("pairs", TEXTS[::-1], 40),
        ("pairs_7", TEXTS[::-1], 7),
    ):
        inputs = tokenizer(TEXTS, pairs, max_length=length)
        outputs = pretrainer.encoder(inputs)
        states = np.asarray(outputs["sequence_output"])
        real = inputs["input_mask"].astype(bool)
        means = [rows[m].mean(0) for rows, m in zip(states, real, strict=True)]
        case_values = {
            **inputs,
            "pooled_output": outputs["pooled_output"],
            "mean_output": means,
            "sequence_output": states,
        }
        values |= {f"{case}/{name}": x for name, x in case_values.items()}
    path = tmp_path_factory.mktemp("expected") / "expected.npz"
    np.savez(path, **values)
    return path


@pytest.mark.long
def test_in_tensorflow(consumer, paths, expected, tmp_path):
    consumer("text_encoder_in_tensorflow.py", *paths, expected, tmp_path)


def test_in_keras_3(paths):
    layer = HubLayer(paths[0], arguments={"seq_length": 9})
    strings = keras.Input((), dtype="string")
    model = keras.Model(
        strings, keras.layers.Dense(1)(layer(strings)["mean_output"])
    )
    assert len(model.trainable_weights) == 25 + 2
    texts = tf.constant(TEXTS)
    before = [weight.numpy() for weight in layer.weights]
    model.compile("adam", "mse")
    model.fit(texts, np.arange(len(TEXTS)), verbose=0)
    changed = [
        np.any(weight.numpy() != value)
        for weight, value in zip(layer.weights, before, strict=True)
    ]
    # The mean does not look at the pooler.
    assert sum(changed) == 23


def test_what_it_says_of_itself(paths, pretrainer, tokenizer_model):
    for path, packed in zip(paths, (True, False), strict=True):
        values = json.loads((path / "export.json").read_text())
        assert values["kind"] == "text_encoder"
        assert values["packed"] is packed
        assert values["seq_length"] == 40
        assert values["tokenizer"]["digit_comma"] == "off"
        assert values["tokenizer"]["file"] == "spiece.model"
        assert values["weights_sha256"] == weights_fingerprint(
            {w.path: w.numpy() for w in pretrainer.encoder.weights}
        )
        for file in path.rglob("*"):
            place = tokenizer_model.parent.name.encode()
            assert file.is_dir() or place not in file.read_bytes(), file


@pytest.mark.parametrize("length", [2, 41])
def test_lengths_that_do_not_fit(pretrainer, tokenizer_model, tmp_path, length):
    with pytest.raises(InputError, match=f"seq_length={length} must be from 3"):
        export_text_encoder(
            pretrainer,
            tmp_path / "new",
            tokenizer_model=tokenizer_model,
            seq_length=length,
        )
    assert not (tmp_path / "new").exists()


def test_models_that_do_not_fit(config, tokenizer_model, tmp_path):
    def export(model):
        export_text_encoder(
            model, tmp_path / "new", tokenizer_model=tokenizer_model
        )

    with pytest.raises(InputError, match="made with pooler=False"):
        export(AlbertEncoder(config, pooler=False))
    with pytest.raises(TypeError, match="not AlbertClassifier"):
        export(AlbertClassifier(config, 2))
    small = config.to_dict() | {"vocab_size": 80}
    with pytest.raises(InputError, match="90 pieces, but the model's"):
        export(AlbertEncoder(type(config).from_dict(small)))
    assert not (tmp_path / "new").exists()


@pytest.mark.backend
def test_another_backend(tmp_path):
    program = """
from albert_tf import AlbertConfig, AlbertEncoder
from albert_tf.export.text_encoder import export_text_encoder

config = AlbertConfig(
    vocab_size=9,
    embedding_size=2,
    hidden_size=2,
    num_hidden_layers=1,
    num_attention_heads=1,
    intermediate_size=2,
)
export_text_encoder(AlbertEncoder(config), "new", tokenizer_model="none")
"""
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "KERAS_BACKEND": "jax"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert "needs KERAS_BACKEND=tensorflow, not 'jax'" in result.stderr
    assert not (tmp_path / "new").exists()
