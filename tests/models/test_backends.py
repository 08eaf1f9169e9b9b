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
SCRIPTS = pathlib.Path(__file__).parent / "scripts"


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


def run(script, backend, inputs_file):
    output = inputs_file.with_name(f"{script}-{backend}.npz")
    subprocess.run(
        [sys.executable, SCRIPTS / f"{script}.py", inputs_file, output],
        env={**os.environ, "KERAS_BACKEND": backend},
        check=True,
    )
    return dict(np.load(output))


@pytest.fixture(scope="module")
def reference(inputs_file):
    return run("backend_outputs", "tensorflow", inputs_file)


@pytest.fixture(scope="module")
def fits(inputs_file):
    return run("fit_task_models", "tensorflow", inputs_file)


@pytest.mark.backend
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_outputs_and_fit_agree(backend, inputs_file, reference):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed: run `make test-backends`")
    outputs = run("backend_outputs", backend, inputs_file)
    assert str(outputs.pop("backend")) == backend
    # Losses after updates accumulate the rounding of three steps.
    np.testing.assert_allclose(
        outputs.pop("loss"), reference["loss"], rtol=1e-5
    )
    assert set(outputs) == set(reference) - {"backend", "loss"}
    for name, value in outputs.items():
        np.testing.assert_allclose(
            value, reference[name], atol=1e-5, err_msg=name
        )


@pytest.mark.backend
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_task_models_fit_alike(backend, inputs_file, fits):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed: run `make test-backends`")
    found = run("fit_task_models", backend, inputs_file)
    assert str(found.pop("backend")) == backend
    assert set(found) == set(fits) - {"backend"}
    losses = {k: v for k, v in found.items() if k.endswith("/loss")}
    assert len(losses) == 5
    for name, (first, second) in losses.items():
        assert second < first, name
    # Losses and weights after two steps differ by rounding only.
    for name, value in found.items():
        np.testing.assert_allclose(
            value, fits[name], rtol=1e-5, atol=1e-5, err_msg=name
        )
