"""Exports in optimum, which has an environment of its own.

See requirements-optimum.txt.
"""

import json
import pathlib

import numpy as np
import pytest

from albert_tf.exporting.huggingface_layout import huggingface_program
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.text.packing import ENCODER_INPUTS
from albert_tf.text.tokenizer_files import load_tokenizer

pytestmark = pytest.mark.optimum

PYTHON = pathlib.Path(__file__).parents[2] / ".venv-optimum/bin/python"
TEXTS = ["A good movie", "It was bad", "Not the plot"]
# Export -> the class that opens it.
CLASSES = {
    "encoder": "ORTModelForFeatureExtraction",
    "pretrained": "ORTModelForMaskedLM",
    "sst2": "ORTModelForSequenceClassification",
    "ner": "ORTModelForTokenClassification",
    "squad1.1": "ORTModelForQuestionAnswering",
}


def test_outputs(huggingface_exports, run_program, tmp_path):
    if not PYTHON.exists():
        pytest.skip(f"optimum is not installed ({PYTHON}: make test-optimum)")
    jobs = []
    for name, model_class in CLASSES.items():
        texts = [TEXTS, TEXTS[::-1]] if name == "squad1.1" else [TEXTS]
        folder = str(huggingface_exports(name)[1])
        jobs += [
            {"class": model_class, "folder": folder, "file": x, "texts": texts}
            for x in ("model.onnx", "model_quantized.onnx")
        ]
    (tmp_path / "jobs").write_text(json.dumps(jobs))
    files = (tmp_path / "jobs", tmp_path / "results")
    run_program("optimum_models.py", *files, python=PYTHON)
    results = json.loads((tmp_path / "results").read_text())
    for job, found in zip(jobs, results, strict=True):
        folder = pathlib.Path(job["folder"])
        source, _ = huggingface_exports(folder.name)
        program = huggingface_program(open_checkpoint(source), 32)
        rows = load_tokenizer(folder)(*job["texts"])
        assert found.pop("input_ids") == rows["input_word_ids"].tolist()
        inputs = {name: rows[name] for name in ENCODER_INPUTS}
        expected = program.forward(program.model, inputs)
        assert found
        assert set(found) <= set(expected)
        # These matrices are too small to lose much in 8 bits.
        tolerance = 1e-4 if job["file"] == "model.onnx" else 0.2
        for name, values in found.items():
            np.testing.assert_allclose(
                values, expected[name], rtol=0, atol=tolerance, err_msg=name
            )
