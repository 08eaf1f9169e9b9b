"""Exports of our TensorFlow in the oldest supported one, and vice versa.

The old one has its own environment; see requirements-old-tensorflow.txt.
"""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from albert_tf.exporting.config import ExportConfig
from albert_tf.exporting.export import export

pytestmark = pytest.mark.old_tensorflow

VERSION = "2.18."
SHARED = ("encoder", "preprocessor", "text_encoder")
SCRIPT = pathlib.Path(__file__).parent / "scripts" / "export_small_model.py"
PYTHON = pathlib.Path(
    os.environ.get(
        "ALBERT_TF_OLD_TENSORFLOW_PYTHON",
        pathlib.Path(__file__).parents[2] / ".venv-old-tensorflow/bin/python",
    )
)


@pytest.fixture(scope="module")
def ours(exports, preprocessor_path, pretrained, tmp_path_factory):
    """Exports of this process."""
    folder = tmp_path_factory.mktemp("exports")
    export(
        ExportConfig(model=pretrained, output=folder / "packed", packed=True)
    )
    export(
        ExportConfig(
            model=pretrained,
            output=folder / "litert",
            kind="litert",
            quantization="dynamic",
            seq_length=12,
        )
    )
    return {name: exports[name][1] for name in SHARED} | {
        # Its rows are short enough for the encoder.
        "preprocessor": preprocessor_path,
        "packed": folder / "packed",
        "litert": folder / "litert",
    }


@pytest.fixture(scope="module")
def theirs(pretrained, tokenizer_model, tmp_path_factory):
    """Exports of the same model by the old TensorFlow."""
    folder = tmp_path_factory.mktemp("old-tensorflow")
    result = subprocess.run(
        [PYTHON, SCRIPT, VERSION, pretrained, tokenizer_model, folder],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-4000:]
    exports = {name: folder / name for name in (*SHARED, "packed", "litert")}
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


def test_numbers_and_contract(direction, pretrained, run_in_tensorflow):
    exports, python = direction
    pairs = [(pretrained, folder) for folder in exports.values()]
    run_in_tensorflow(pairs, python=python)


@pytest.mark.parametrize(
    ("program", "kind", "environment"),
    [
        ("keras_layer_saving.py", [], {"TF_USE_LEGACY_KERAS": "1"}),
        ("layers_of_keras_3.py", ["tfsm"], {}),
    ],
)
def test_layers(run_program, direction, tmp_path, program, kind, environment):
    exports, python = direction
    for arguments in (
        ("save", exports["preprocessor"], exports["encoder"], tmp_path),
        ("load", tmp_path),
    ):
        run_program(program, *kind, *arguments, python=python, **environment)
