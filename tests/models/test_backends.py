"""The same model code under TensorFlow, JAX and PyTorch."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.models.pretrainer import AlbertPretrainer

CONFIG = AlbertConfig(
    vocab_size=60,
    embedding_size=8,
    hidden_size=24,
    num_hidden_layers=4,
    num_hidden_groups=2,
    num_attention_heads=3,
    intermediate_size=40,
    max_position_embeddings=32,
    initializer_range=0.2,
)
SCRIPT = pathlib.Path(__file__).parent / "scripts" / "backend_outputs.py"


@pytest.fixture(scope="module")
def inputs_file(tmp_path_factory):
    rng = np.random.default_rng(0)
    mask = (np.arange(14) < np.array([14, 9, 3])[:, None]).astype("int32")
    arrays = {
        "config": json.dumps(CONFIG.to_dict()),
        "in/input_word_ids": rng.integers(5, 60, mask.shape, "int32") * mask,
        "in/input_mask": mask,
        "in/input_type_ids": (np.arange(14) > 5).astype("int32") * mask,
        "in/masked_lm_positions": np.array([[1, 6], [2, 8], [1, 0]], "int32"),
    }
    for variable in AlbertPretrainer(CONFIG).trainable_variables:
        value = np.asarray(variable)
        arrays[f"weight/{variable.path}"] = value
    path = tmp_path_factory.mktemp("backends") / "inputs.npz"
    np.savez(path, **arrays)
    return path


def run(backend, inputs_file):
    output = inputs_file.with_name(f"{backend}.npz")
    subprocess.run(
        [sys.executable, SCRIPT, inputs_file, output],
        env={**os.environ, "KERAS_BACKEND": backend},
        check=True,
    )
    return dict(np.load(output))


@pytest.fixture(scope="module")
def reference(inputs_file):
    return run("tensorflow", inputs_file)


@pytest.mark.backend
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_outputs_and_fit_agree(backend, inputs_file, reference):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed: run `make test-backends`")
    outputs = run(backend, inputs_file)
    assert str(outputs.pop("backend")) == backend
    # Losses after updates with rate 0.1 carry the rounding of three steps.
    np.testing.assert_allclose(
        outputs.pop("loss"), reference["loss"], rtol=1e-5
    )
    assert set(outputs) == set(reference) - {"backend", "loss"}
    for name, value in outputs.items():
        np.testing.assert_allclose(
            value, reference[name], atol=1e-5, err_msg=name
        )
