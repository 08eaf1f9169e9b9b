import numpy as np
import tensorflow as tf

from albert_tf.layers.core import LayerNorm


def test_equals_the_definition_in_float64():
    x = np.random.default_rng(0).normal(3.0, 2.0, (5, 33))
    layer = LayerNorm(1e-12)
    layer.build((None, 33))
    layer.gamma.assign(np.linspace(0.5, 2, 33))
    layer.beta.assign(np.linspace(-1, 1, 33))
    normal = (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)
    expected = normal * np.linspace(0.5, 2, 33) + np.linspace(-1, 1, 33)
    np.testing.assert_allclose(
        layer(tf.constant(x, "float32")), expected, atol=2e-6
    )


def test_half_precision_is_normalized_in_float32():
    # 300^2, and so a float16 variance, would overflow.
    x = tf.constant([[300.0, -300.0, 300.0, -300.0]], "float16")
    layer = LayerNorm(1e-12, dtype="mixed_float16")
    layer.build((None, 4))
    result = layer(x)
    assert result.dtype == tf.float16
    np.testing.assert_allclose(result, [[1, -1, 1, -1]], atol=1e-3)
