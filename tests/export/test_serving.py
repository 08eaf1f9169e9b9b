"""Exports in TensorFlow's C++ runtime, and the server of docs/serving.md."""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import urllib.error
import urllib.request

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401
from tensorflow.core.protobuf import saved_model_pb2

from albert_tf.exporting.manifest import read_export

pytestmark = pytest.mark.long

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "serving.md"
TEXTS = ["a good movie", "", "I have seen it 12,000 times; the plot was bad"]


@pytest.fixture(scope="module")
def task_path(task_exports):
    return task_exports("sst2")[1]


@pytest.fixture(scope="module")
def answers(task_path):
    """Outputs for TEXTS in Python: name -> array."""
    serve = tf.saved_model.load(task_path).signatures["serving_default"]
    outputs = {
        name: values.numpy()
        for name, values in serve(text=tf.constant(TEXTS)).items()
    }
    outputs["label"] = np.array([x.decode() for x in outputs["label"]])
    return outputs


def check_in_cpp_runtime(run_program, export, arrays, folder):
    saved_model = saved_model_pb2.SavedModel.FromString(
        (export / "saved_model.pb").read_bytes()
    )
    (meta_graph,) = saved_model.meta_graphs
    signature = meta_graph.signature_def["serving_default"]
    request = {
        kind: {name: info.name for name, info in tensors.items()}
        for kind, tensors in (
            ("inputs", signature.inputs),
            ("outputs", signature.outputs),
        )
    }
    assert set(request["outputs"]) <= set(arrays)
    (folder / "request.json").write_text(json.dumps(request))
    np.savez(folder / "expected.npz", **arrays)
    run_program(
        "signature_in_cpp_runtime.py",
        export,
        folder / "request.json",
        folder / "expected.npz",
        python=sys.executable,  # Without TensorFlow's Python.
    )


@pytest.mark.skipif(
    sys.platform != "linux", reason="libraries have other names elsewhere"
)
class TestCppRuntime:
    def test_ids(self, run_program, encoder_path, pretrainer, inputs, tmp_path):
        outputs = pretrainer.encoder(inputs)
        names = ("sequence_output", "pooled_output")
        arrays = {**inputs, **{name: outputs[name] for name in names}}
        check_in_cpp_runtime(run_program, encoder_path, arrays, tmp_path)

    def test_strings(self, run_program, task_path, answers, tmp_path):
        arrays = {"text": np.array(TEXTS), **answers}
        check_in_cpp_runtime(run_program, task_path, arrays, tmp_path)


@contextlib.contextmanager
def running(folder, export):
    """Runs serve.py in a folder; yields the address of the server."""
    process = subprocess.Popen(
        # Port 0: one that is free.
        [sys.executable, "-m", "uvicorn", "serve:app", "--port", "0"],
        cwd=folder,
        env={**os.environ, "MODEL": os.fspath(export)},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        log = ""
        for line in process.stderr:
            log += line
            address = re.search(r"running on (http://\S+)", line)
            if address:
                break
        else:
            pytest.fail(f"serve.py ended:\n{log}", pytrace=False)
        yield address[1]
    finally:
        process.terminate()
        process.wait(timeout=30)
        process.stderr.close()


def post(address, body):
    request = urllib.request.Request(
        f"{address}/predict",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


@pytest.fixture(scope="module")
def address(task_path, tmp_path_factory):
    (code,) = re.findall(
        r"<!-- serve.py -->\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL
    )
    assert len(code.splitlines()) < 50
    assert "albert_tf" not in code
    folder = tmp_path_factory.mktemp("server")
    (folder / "serve.py").write_text(code)
    with running(folder, task_path) as address:
        yield address


class TestFastApi:
    def test_predictions(self, address, answers, task_path):
        labels = read_export(task_path)["task"]["labels"]
        predictions = post(address, {"texts": TEXTS})
        assert [x["label"] for x in predictions] == answers["label"].tolist()
        for prediction, row in zip(
            predictions, answers["probabilities"], strict=True
        ):
            assert list(prediction["probabilities"]) == labels
            np.testing.assert_allclose(
                list(prediction["probabilities"].values()),
                row,
                rtol=0,
                # The same program in another process: float32 rounding.
                atol=1e-6,
            )

    @pytest.mark.parametrize(
        "body",
        [
            {"texts": []},
            {"texts": ["a"] * 65},
            {"texts": ["a" * 10_001]},
            {"texts": "a good movie"},
            {"texts": [1]},
            {"text": ["a good movie"]},
            {"texts": ["a lone surrogate \ud800"]},
            {"texts": [float("nan")]},
            {"texts": float("inf")},
            {"texts": [{"\udfff": 1}]},
        ],
    )
    def test_bad_requests(self, address, body):
        with pytest.raises(urllib.error.HTTPError) as error:
            post(address, body)
        assert error.value.code == 422
        assert "texts" in error.value.read().decode()
        # The server still runs.
        assert post(address, {"texts": ["a good movie"]})
