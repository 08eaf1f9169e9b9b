"""Builds, saves and loads models under JAX, where TensorFlow is absent."""

import sys

sys.modules["tensorflow"] = None
import numpy as np  # noqa: E402

from albert_tf import AlbertConfig, AlbertEncoder, AlbertPretrainer  # noqa: E402

config = AlbertConfig(
    vocab_size=30,
    embedding_size=4,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=16,
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
