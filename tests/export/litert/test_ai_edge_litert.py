"""Models in the interpreter that small machines have: no TensorFlow."""

import sys

import numpy as np
import pytest

from albert_tf.exporting.config import QUANTIZATIONS
from albert_tf.exporting.litert_conversion import (
    ConstantGraph,
    convert,
    signature_runner,
)
from albert_tf.runtimes.ids_program import encoder_program

pytestmark = pytest.mark.peer


@pytest.fixture(scope="module")
def run_models(run_program):
    pytest.importorskip(
        "ai_edge_litert", reason="ai-edge-litert is not installed"
    )
    return lambda *files: run_program(
        "litert_models.py",
        "ai_edge_litert",
        *files,
        python=sys.executable,  # Where TensorFlow was never imported.
    )


def write(folder, name, model, inputs):
    """Writes a model, and what TensorFlow's interpreter makes of inputs."""
    file = folder / f"{name}.tflite"
    file.write_bytes(model)
    expected = folder / f"{name}.npz"
    np.savez(expected, **inputs, **signature_runner(model)(**inputs))
    return file, expected


@pytest.mark.parametrize("resizable", [False, True])
def test_same_numbers(run_models, wide, make_rows, length, tmp_path, resizable):
    graph = ConstantGraph(
        encoder_program(wide, seq_length=length, resizable=resizable)
    )
    rows = make_rows(4)
    inputs = rows[1]
    if resizable:
        inputs = {
            name: np.concatenate([row[name][:, :7] for row in rows])
            for name in inputs
        }
    files = []
    for name in QUANTIZATIONS:
        calibration = rows if name == "int8" else None
        model = convert(graph, name, calibration)
        files += write(tmp_path, name, model, inputs)
    run_models(*files)
