"""The same model code under TensorFlow, JAX and PyTorch."""

import functools
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from architectures import SMALL

from albert_tf.models.pretrainer import AlbertPretrainer

SCRIPTS = pathlib.Path(__file__).parent / "scripts"
CONFIG = SMALL.replace(vocab_size=60)


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


@pytest.fixture(scope="module")
def run(run_script, inputs_file):
    """Returns `run(script, backend)`: the arrays that a script computes."""

    @functools.cache
    def run(script, backend):
        output = inputs_file.with_name(f"{script}-{backend}.npz")
        path = SCRIPTS / f"{script}.py"
        run_script(path, backend, inputs_file, output)
        return dict(np.load(output))

    return run


@pytest.mark.backend
@pytest.mark.parametrize("script", ["backend_outputs", "fit_task_models"])
def test_outputs_and_fit_agree(backend, script, run):
    found, expected = run(script, backend), run(script, "tensorflow")
    assert found.keys() == expected.keys()
    assert str(found["backend"]) == backend
    for name in found.keys() - {"backend"}:
        if name.endswith("loss"):
            assert found[name][-1] < found[name][0], name
        # Also after some steps, the difference is rounding.
        np.testing.assert_allclose(
            found[name], expected[name], rtol=1e-5, atol=1e-5, err_msg=name
        )


@pytest.mark.backend
def test_models_without_tensorflow(tmp_path):
    pytest.importorskip("jax", reason="run `make test-backends`")
    program = SCRIPTS / "without_tensorflow.py"
    subprocess.run(
        [sys.executable, program, tmp_path / "model"],
        env={**os.environ, "KERAS_BACKEND": "jax"},
        check=True,
    )


@pytest.mark.backend
def test_inputs_of_unknown_length(backend, python_with):
    python, environment = python_with(backend)
    program = SCRIPTS / "symbolic_inputs.py"
    subprocess.run([python, program], env=environment, check=True)
