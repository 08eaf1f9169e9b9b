"""Exports of our TensorFlow in the oldest that we support, and the reverse.

The old one has its own environment; see requirements-old-tensorflow.txt.
"""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from albert_tf.export.litert.interpreter import signature_runner
from albert_tf.export.litert.program import encoder_program
from albert_tf.export.litert.writer import export_litert
from albert_tf.export.text_encoder import export_text_encoder
from albert_tf.text.tokenizer import AlbertTokenizer

pytestmark = pytest.mark.old_tensorflow

VERSION = "2.18."
SCRIPT = pathlib.Path(__file__).parent / "scripts" / "export_small_model.py"
PYTHON = pathlib.Path(
    os.environ.get(
        "ALBERT_TF_OLD_TENSORFLOW_PYTHON",
        pathlib.Path(__file__).parents[2] / ".venv-old-tensorflow/bin/python",
    )
)


@pytest.fixture(scope="module")
def ours(
    encoder_path,
    packed_path,
    preprocessor_path,
    pretrainer,
    tokenizer_model,
    tmp_path_factory,
):
    """What this process exports."""
    folder = tmp_path_factory.mktemp("exports")
    text_encoder, litert = folder / "text_encoder", folder / "litert"
    export_text_encoder(
        pretrainer, text_encoder, tokenizer_model=tokenizer_model
    )
    export_litert(
        encoder_program(pretrainer.encoder, seq_length=12),
        litert,
        tokenizer=AlbertTokenizer.from_file(tokenizer_model),
        quantization="dynamic",
    )
    return {
        "litert": litert,
        "text_encoder": text_encoder,
        "encoder": encoder_path,
        "packed": packed_path,
        "preprocessor": preprocessor_path,
    }


@pytest.fixture(scope="module")
def theirs(pretrainer, tokenizer_model, tmp_path_factory):
    """What the old TensorFlow exports of the same model."""
    folder = tmp_path_factory.mktemp("old-tensorflow")
    pretrainer.save_pretrained(folder / "model")
    result = subprocess.run(
        [PYTHON, SCRIPT, VERSION, folder / "model", tokenizer_model, folder],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-4000:]
    names = ("encoder", "packed", "preprocessor", "text_encoder", "litert")
    exports = {name: folder / name for name in names}
    for path in exports.values():
        manifest = json.loads((path / "export.json").read_text("utf-8"))
        assert manifest["versions"]["tensorflow"].startswith(VERSION)
    return exports


@pytest.fixture(scope="module", params=["ours there", "theirs here"])
def direction(request):
    """Returns (exports, the interpreter that loads them)."""
    if not PYTHON.exists():
        pytest.skip("TensorFlow 2.18 is absent: run `make test-old-tensorflow`")
    if request.param == "ours there":
        return request.getfixturevalue("ours"), PYTHON
    return request.getfixturevalue("theirs"), sys.executable


def test_encoder(consumer, direction, expected, tmp_path):
    exports, python = direction
    consumer(
        "encoder_in_tensorflow.py",
        exports["encoder"],
        exports["packed"],
        expected,
        tmp_path,
        python=python,
    )


def test_preprocessor(
    consumer, direction, tokenizer_model, preprocessor_expectations, tmp_path
):
    exports, python = direction
    expected = tmp_path / "expected.json"
    expected.write_text(json.dumps(preprocessor_expectations(tokenizer_model)))
    consumer(
        "preprocessor_in_tensorflow.py",
        tmp_path / "new",
        exports["preprocessor"],
        expected,
        python=python,
    )


def test_text_encoder(
    consumer, direction, pretrainer, tokenizer_model, tmp_path
):
    exports, python = direction
    texts = ["the good movie", "", "Stra\u00dfe, 12,345: a b\u00e0d FILM"]
    inputs = AlbertTokenizer.from_file(tokenizer_model)(texts)
    np.savez(
        tmp_path / "expected.npz",
        texts=texts,
        input_word_ids=inputs["input_word_ids"],
        pooled_output=pretrainer.encoder(inputs)["pooled_output"],
    )
    consumer(
        "same_embeddings.py",
        exports["text_encoder"],
        tmp_path / "expected.npz",
        python=python,
    )


def test_litert(consumer, direction, inputs, tmp_path):
    exports, python = direction
    model = exports["litert"] / "model.tflite"
    row = {name: x[:1] for name, x in inputs.items()}
    outputs = signature_runner(model.read_bytes())(**row)
    np.savez(tmp_path / "expected.npz", **row, **outputs)
    consumer(
        "litert_models.py",
        "tensorflow",
        model,
        tmp_path / "expected.npz",
        python=python,
    )


def test_movie_reviews_in_tf_keras(consumer, direction, tmp_path):
    exports, python = direction
    consumer(
        "movie_reviews.py",
        exports["preprocessor"],
        exports["encoder"],
        tmp_path,
        python=python,
        TF_USE_LEGACY_KERAS="1",
    )


def test_layers_of_keras_3(consumer, direction, tmp_path):
    exports, python = direction
    for arguments in (
        ("save", exports["preprocessor"], exports["encoder"], tmp_path),
        ("load", tmp_path),
    ):
        consumer("layers_of_keras_3.py", "tfsm", *arguments, python=python)
