"""Models under JAX without TensorFlow."""

import importlib.util
import os
import subprocess
import sys

import pytest

_PROGRAM = """
import sys

sys.modules["tensorflow"] = None
import numpy as np

from albert_tf import AlbertConfig, AlbertEncoder, AlbertPretrainer

config = AlbertConfig(
    vocab_size=30, embedding_size=4, hidden_size=8, num_hidden_layers=2,
    num_attention_heads=2, intermediate_size=12, max_position_embeddings=16,
)
ids = np.array([[2, 7, 9, 3]])
inputs = {
    "input_word_ids": ids,
    "input_mask": np.ones_like(ids),
    "input_type_ids": np.zeros_like(ids),
}
for model, more in (
    (AlbertEncoder(config), {}),
    (AlbertPretrainer(config), {"masked_lm_positions": np.array([[1, 2]])}),
):
    outputs = model(inputs | more)
    model.save_pretrained(sys.argv[1])
    again = type(model).from_pretrained(sys.argv[1])(inputs | more)
    np.testing.assert_array_equal(
        outputs["pooled_output"], again["pooled_output"]
    )
"""


@pytest.mark.backend
def test_models_are_built_saved_and_loaded(tmp_path):
    if importlib.util.find_spec("jax") is None:
        pytest.skip("jax is not installed: run `make test-backends`")
    subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(tmp_path / "model")],
        env={**os.environ, "KERAS_BACKEND": "jax"},
        check=True,
    )
