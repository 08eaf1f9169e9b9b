"""Exports for ONNX Runtime and OpenVINO: checks, damage and bad settings."""

import shutil
import sys

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.exporting.check import check_files
from albert_tf.exporting.check_program import (
    Failed,
    load_export,
    same_as_source,
)
from albert_tf.exporting.config import ExportConfig
from albert_tf.exporting.export import export
from albert_tf.exporting.manifest import read_export
from albert_tf.exporting.reference import source_cases
from albert_tf.text.packing import ENCODER_INPUTS

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("tf2onnx", reason="tf2onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
pytest.importorskip("openvino", reason="openvino is not installed")

RUNTIMES = ("onnx", "openvino")


@pytest.mark.parametrize("kind", RUNTIMES)
def test_damage(exports, make_pretrained, tokenizer, tmp_path, kind):
    source, path = exports[kind]
    values = read_export(path)
    files = [name for name in values["files"] if name != "model.xml"]
    for name in files:
        folder = shutil.copytree(path, tmp_path / name)
        content = bytearray((folder / name).read_bytes())
        content[len(content) // 2] ^= 1
        (folder / name).write_bytes(content)
        found = check_files(folder, values)
        assert found.result == "FAIL"
        assert found.figure.startswith(f"{name}: sha256 ")
    (folder / name).unlink()
    assert f"{name} is missing" in check_files(folder, values).figure
    assert check_files(path, values).result == "pass"
    # Another vocabulary, with its sha256 in the manifest.
    values["files"]["spiece.model"]["sha256"] = "0"
    values["tokenizer"]["fingerprint"] = "0"
    with pytest.raises(InputError, match="has vocabulary_sha256="):
        source_cases(source, values)
    # Other weights.
    model = load_export(path)
    ((_, *case),) = source_cases(make_pretrained(9), read_export(path))
    with pytest.raises(Failed, match="sequence_output: differs by"):
        same_as_source(model, *case)


def test_flipped_weights(exports, tmp_path):
    """Weights that differ from export.json, in a valid file."""
    folder = shutil.copytree(exports["onnx"][1], tmp_path / "e")
    model = onnx.load(folder / "model.onnx")
    for tensor in model.graph.initializer:
        if tensor.name.endswith("query/kernel"):
            values = onnx.numpy_helper.to_array(tensor)
            tensor.raw_data = values[::-1].tobytes()
    onnx.save(model, folder / "model.onnx")
    with pytest.raises(Failed, match="sha256: found"):
        load_export(folder).weights()


@pytest.mark.parametrize("kind", RUNTIMES)
@pytest.mark.parametrize("packed", [False, True])
def test_rows_that_are_too_long(exports, config, tmp_path, kind, packed):
    longest = config.max_position_embeddings
    source, path = exports[kind]
    if packed:
        path = tmp_path / "packed"
        export(ExportConfig(model=source, output=path, kind=kind, packed=True))
    model = load_export(path)
    ids = np.ones([1, longest + 1], "int32")
    message = {
        "onnx": f"longer_than_max_position_embeddings_{longest}",
        "openvino": rf"shape=\[\?,1\.\.{longest}\]\) .* are incompatible",
    }
    with pytest.raises(Exception, match=message[kind]):
        model.call("", dict.fromkeys(ENCODER_INPUTS, ids))


@pytest.mark.parametrize(
    ("kind", "package"),
    [("onnx", "onnx"), ("onnx", "tf2onnx"), ("openvino", "openvino")],
)
def test_missing_packages(pretrained, tmp_path, monkeypatch, kind, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        InputError, match=rf"kind={kind} need .*: pip install .*{package}"
    ):
        export(ExportConfig(model=pretrained, output=tmp_path / "e", kind=kind))
    assert not list(tmp_path.iterdir())
