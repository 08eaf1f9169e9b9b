import numpy as np
import pytest
import tensorflow as tf

from albert_tf.layers.core import LayerNorm
from albert_tf.layers.recomputed import gelu_tanh, layer_norm
from albert_tf.layers.shared_stack import FeedForward

# TensorFlow's cubic coefficient is a float32, and tanh is 1 from 8 on; half
# precision is rounded once, to half of its spacing at 1.
TOLERANCES = {"float64": 1e-8, "float32": 3e-5, "bfloat16": 2**-8}
TOLERANCES["float16"] = 2**-11 + 1e-5


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def gradient(function, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        outputs = function(x)
    return outputs, tape.gradient(outputs, x, tf.fill(tf.shape(x), x[0, 0]))


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_gelu_equals_that_of_tensorflow(dtype):
    x = tf.cast(np.linspace(-6, 6, 1000).reshape(2, 500), dtype)
    found = tf.function(lambda x: gradient(gelu_tanh, x))(x)
    assert all(tensor.dtype == dtype for tensor in found)
    expected = gradient(
        lambda x: tf.nn.gelu(x, approximate=True), tf.cast(x, "float64")
    )
    for tensor, values in zip(found, expected, strict=True):
        np.testing.assert_allclose(
            tf.cast(tensor, "float64"),
            values,
            rtol=TOLERANCES[dtype],
            atol=TOLERANCES[dtype],
        )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_gelu_is_finite_everywhere(dtype):
    dtype = tf.as_dtype(dtype)
    x = tf.cast([[float(dtype.min), -300, 0, 300, float(dtype.max)]], dtype)
    outputs, slopes = gradient(gelu_tanh, x)
    assert np.isfinite(tf.cast(slopes[0, 1:4], "float64")).all()
    np.testing.assert_array_equal(
        tf.cast(outputs, "float64"), tf.cast(tf.nn.relu(x), "float64")
    )


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_layer_norm_equals_that_of_inference(dtype, rng):
    layer = LayerNorm(1e-12, dtype=dtype)
    layer.build((None, 40))
    layer.gamma.assign(rng.normal(1, 0.1, 40))
    layer.beta.assign(rng.normal(0, 0.1, 40))
    x = tf.cast(rng.normal(3, 2, (30, 40)), dtype)
    wide = LayerNorm(1e-12, dtype="float64")
    wide.build((None, 40))
    wide.set_weights(layer.get_weights())

    def gradients(layer, x, training):
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs = layer(x, training=training)
            loss = tf.reduce_sum(tf.sin(tf.cast(outputs, "float64")))
        weights = [weight.value for weight in layer.weights]
        return outputs, *tape.gradient(loss, [x, *weights])

    found = tf.function(lambda x: gradients(layer, x, True))(x)
    expected = gradients(wide, tf.cast(x, "float64"), False)
    for tensor, values in zip(found, expected, strict=True):
        difference = tf.norm(tf.cast(tensor, "float64") - values)
        assert difference < 10 * TOLERANCES[dtype] * tf.norm(values)


@pytest.mark.long
def test_second_derivatives(rng):
    x = tf.constant(rng.normal(size=(2, 3)))
    gamma, beta = tf.ones(3, "float64"), tf.zeros(3, "float64")
    for function in (gelu_tanh, lambda x: layer_norm(x, gamma, beta, 1e-12)):

        @tf.function
        def slopes(x, function=function):
            return gradient(lambda x: function(x) ** 2, x)[1]

        theoretical, numerical = tf.test.compute_gradient(slopes, [x])
        np.testing.assert_allclose(theoretical, numerical, rtol=1e-4, atol=1e-6)


def nodes(graph):
    """The operations of a graph and of its functions."""
    definition = graph.as_graph_def()
    functions = definition.library.function
    return [*definition.node, *(n for f in functions for n in f.node_def)]


@pytest.mark.parametrize(
    ("training", "rows", "compiled"),
    [(True, 16, True), (True, None, False), (False, 16, False)],
)
def test_only_training_of_static_shapes_is_compiled(
    config, training, rows, compiled
):
    layer = FeedForward(config)
    layer.build()

    @tf.function(input_signature=[tf.TensorSpec([rows, config.hidden_size])])
    def apply(x):
        return layer(x, training=training)

    graph = apply.get_concrete_function().graph
    attributes = graph.as_graph_def().library.function
    found = any(f.attr["_XlaMustCompile"].b for f in attributes)
    assert found == compiled
    if not compiled:
        assert {node.op for node in nodes(graph)}.isdisjoint(["IdentityN"])
