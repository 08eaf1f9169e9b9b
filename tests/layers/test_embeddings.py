import numpy as np
import pytest
import tensorflow as tf
from architectures import SMALL

from albert_tf.layers.embeddings import Embeddings

CONFIG = SMALL.replace(embedding_size=32, max_position_embeddings=512)


def gradients(dtype):
    """Returns the tables' gradients at 8 x 512 tokens."""
    layer = Embeddings(CONFIG, dtype=dtype)
    layer.build()
    rng = np.random.default_rng(0)
    for variable in layer.trainable_variables[:3]:
        variable.assign(rng.normal(0, 1, variable.shape))
    word_ids = rng.integers(0, CONFIG.vocab_size, (8, 512))
    upstream = rng.normal(0.1, 1, (8, 512, CONFIG.embedding_size))
    with tf.GradientTape() as tape:
        outputs = layer(word_ids, (word_ids > 20).astype("int32"))
        loss = tf.reduce_sum(tf.cast(outputs, "float32") * upstream)
    assert outputs.dtype == layer.compute_dtype
    tables = (
        layer.word_embeddings,
        layer.token_type_embeddings,
        layer.position_embeddings,
    )
    return [
        np.asarray(x) for x in tape.gradient(loss, [t.value for t in tables])
    ]


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
def test_gradients_of_the_tables_are_summed_in_float32(dtype):
    for actual, expected in zip(
        gradients(dtype), gradients("float32"), strict=True
    ):
        actual, expected = actual.ravel(), expected.ravel()
        norms = np.linalg.norm(actual) * np.linalg.norm(expected)
        assert actual @ expected / norms > 0.999
