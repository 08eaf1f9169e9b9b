"""Fine-tuned models in other runtimes, against the models.

test_check.py has all quantizations of a classifier of pairs.
"""

import json
import zipfile

import pytest
import tensorflow as tf

from albert_tf.exporting.config import ExportConfig
from albert_tf.exporting.export import export
from albert_tf.exporting.manifest import read_export

LENGTHS = {
    "max_seq_length": 32,
    "max_qa_length": 12,
    "max_query_length": 8,
    "doc_stride": 8,
}
# Conversions take seconds. tests/runtimes has graphs of all tasks for ONNX.
EXPORTS = [
    ("embedding", "onnx"),
    ("squad2.0", "openvino"),
    *(
        pytest.param(name, "litert", marks=pytest.mark.long)
        for name in ("squad2.0", "dream", "ner", "stsb pair_features")
    ),
    *(
        pytest.param(name, "litert", marks=pytest.mark.slow)
        for name in ("stsb", "squad1.1")
    ),
]


@pytest.mark.parametrize(("name", "kind"), EXPORTS)
def test_exports_equal_their_source(
    make_finetuned, assert_same_as_source, need_packages, tmp_path, name, kind
):
    need_packages(kind)
    source, folder = make_finetuned(name, **LENGTHS), tmp_path / "e"
    export(ExportConfig(model=source, output=folder, kind=kind))
    assert_same_as_source(source, folder)
    values = read_export(folder)
    assert values["task"] == json.loads((source / "task.json").read_text())
    if kind == "litert":
        interpreter = tf.lite.Interpreter(str(folder / "model.tflite"))
        for operation in interpreter._get_ops_details():
            # Others than built-in ones have lower case, too.
            assert operation["op_name"] == operation["op_name"].upper()
        with zipfile.ZipFile(folder / "model.tflite") as archive:
            files = {x: archive.read(x) for x in archive.namelist()}
    else:
        assert values["packed"]
        files = {x: (folder / x).read_bytes() for x in values["files"]}
    settings = json.loads(files["tokenizer_config.json"])
    assert settings["model_max_length"] == values["seq_length"] == 32
    labels = files.get("labels.txt", b"").decode().splitlines()
    assert labels == (values["task"]["labels"] or [])
