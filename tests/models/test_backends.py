"""The same model code under TensorFlow, JAX and PyTorch."""

import functools
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
    """Returns `reference(script)`: what it computes with TensorFlow."""
    return functools.cache(lambda x: run(x, "tensorflow", inputs_file))


@pytest.mark.backend
@pytest.mark.parametrize("backend", ["jax", "torch"])
@pytest.mark.parametrize("script", ["backend_outputs", "fit_task_models"])
def test_outputs_and_fit_agree(backend, script, inputs_file, reference):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed: run `make test-backends`")
    found, expected = run(script, backend, inputs_file), reference(script)
    assert str(found.pop("backend")) == backend
    assert set(found) == set(expected) - {"backend"}
    for name, value in found.items():
        if name.endswith("loss"):
            assert value[-1] < value[0], name
        # Also after some steps, the difference is rounding.
        np.testing.assert_allclose(
            value, expected[name], rtol=1e-5, atol=1e-5, err_msg=name
        )
