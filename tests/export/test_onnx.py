"""Exports in ONNX Runtime, through tf2onnx and Keras's exporter."""

import subprocess
import sys

import numpy as np
import pytest

from albert_tf.finetuning.text_classification.model import AlbertClassifier
from albert_tf.models.base import ENCODER_INPUTS

pytestmark = pytest.mark.peer

# The product's promise. What was measured: 1e-6 here, 1e-5 for base.
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def runtime():
    pytest.importorskip("tf2onnx", reason="tf2onnx is not installed")
    return pytest.importorskip(
        "onnxruntime", reason="onnxruntime is not installed"
    )


@pytest.fixture(scope="module")
def onnx_path(runtime, encoder_path, tmp_path_factory):
    """What the command of docs/exports.md makes of the encoder."""
    path = tmp_path_factory.mktemp("onnx") / "encoder.onnx"
    command = [sys.executable, "-m", "tf2onnx.convert"]
    command += ["--saved-model", encoder_path, "--opset", "17"]
    command += ["--signature_def", "serving_default", "--output", path]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return path


@pytest.fixture(scope="module")
def session(runtime, onnx_path):
    return runtime.InferenceSession(onnx_path)


def rows(batch, length, vocab_size):
    rng = np.random.default_rng(batch)
    lengths = rng.integers(1, length + 1, (batch, 1))
    mask = (np.arange(length) < lengths).astype("int32")
    ids = rng.integers(5, vocab_size, mask.shape, "int32")
    types = (np.arange(length) > length // 2).astype("int32")
    return dict(
        zip(ENCODER_INPUTS, (ids * mask, mask, types * mask), strict=True)
    )


@pytest.mark.parametrize(("batch", "length"), [(1, 1), (4, 12), (3, 40)])
def test_encoder(session, pretrainer, config, batch, length):
    inputs = rows(batch, length, config.vocab_size)
    desired = pretrainer.encoder(inputs)
    names = ["sequence_output", "pooled_output"]
    for name, values in zip(names, session.run(names, inputs), strict=True):
        np.testing.assert_allclose(
            values, desired[name], rtol=0, atol=TOLERANCE, err_msg=name
        )


def test_rows_that_are_too_long(session, config):
    longest = config.max_position_embeddings
    with pytest.raises(
        Exception, match=f"longer_than_max_position_embeddings_{longest}"
    ):
        session.run(None, rows(1, longest + 1, config.vocab_size))


def test_shared_weights_are_stored_once(onnx_path, pretrainer):
    import onnx

    graph = onnx.load(onnx_path).graph
    stored = sum(
        int(np.prod(tensor.dims))
        for tensor in graph.initializer
        if tensor.data_type == onnx.TensorProto.FLOAT
    )
    parameters = pretrainer.encoder.count_params()
    # Beside them there are a few constants, such as the epsilon.
    assert parameters <= stored < parameters + 100


def test_classifier_through_keras(runtime, config, tmp_path):
    model = AlbertClassifier(config, num_labels=3)
    path = tmp_path / "classifier.onnx"
    model.export(path, format="onnx", verbose=False)
    session = runtime.InferenceSession(path)
    for batch, length in ((1, 5), (3, 17)):
        inputs = rows(batch, length, config.vocab_size)
        (logits,) = session.run(None, inputs)
        np.testing.assert_allclose(
            logits, model(inputs), rtol=0, atol=TOLERANCE
        )
