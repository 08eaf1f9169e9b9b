import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import ACTIVATIONS
from albert_tf.exporting.litert_conversion import ConstantGraph
from albert_tf.layers import spaced_kernels
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.runtimes.ids_program import encoder_program

# Zeros change the order of summation only.
TOLERANCE = 5e-6
# The kernels of a feed-forward layer, or of attention as well, have rows that
# are a multiple of 4 KiB apart.
SIZES = {
    "base": {"intermediate_size": 1024},
    "xlarge": {"hidden_size": 1024, "intermediate_size": 2048},
}


def product_widths(function, *arguments):
    """Returns the numbers of columns of a graph's products of rows."""
    graph = tf.function(function).get_concrete_function(*arguments).graph
    return [
        operation.outputs[0].shape[1]
        for operation in graph.get_operations()
        if operation.type == "MatMul"
    ]


def make_encoder(config):
    """Returns an encoder whose biases and scales matter."""
    encoder = AlbertEncoder(config)
    rng = np.random.default_rng(1)
    for weight in encoder.weights:
        if len(weight.shape) == 1:
            weight.assign(weight + rng.normal(0, 0.1, weight.shape))
    return encoder


@pytest.fixture(params=SIZES)
def encoder(request, config):
    changes = SIZES[request.param]
    return make_encoder(config.replace(**changes, initializer_range=0.05))


def unspaced(encoder, packed=False):
    """Returns a copy of an encoder that does not use the module."""
    config = encoder.get_config() | {"packed": packed}
    copy = AlbertEncoder.from_config(config)
    copy.set_weights(encoder.get_weights())
    copy.stack.space_kernels = False
    return copy


@pytest.mark.parametrize("packed", [False, True])
def test_outputs_are_equal(encoder, batch, packed):
    expected = unspaced(encoder, packed)
    encoder = AlbertEncoder.from_config(
        encoder.get_config() | {"packed": packed}
    )
    encoder.set_weights(expected.get_weights())

    def run(model):
        positions = np.array([[0, 2]] * 4, "int32")
        return [
            *model(batch)["encoder_outputs"],
            model.states_at(batch, positions),
            model.pooled_output(batch),
        ]

    found = tf.function(lambda: run(encoder))()
    for x, y in zip(found, run(expected), strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("hidden_act", ACTIVATIONS)
def test_every_activation(config, batch, hidden_act):
    config = config.replace(intermediate_size=1024, hidden_act=hidden_act)
    encoder = make_encoder(config)
    np.testing.assert_allclose(
        encoder(batch)["sequence_output"],
        unspaced(encoder)(batch)["sequence_output"],
        rtol=0,
        atol=TOLERANCE,
    )


def test_rows_of_kernels_are_apart(encoder, batch):
    """In inference, if several blocks share them; not in training."""

    def spaced(model, **arguments):
        found = product_widths(lambda: model(batch, **arguments))
        return [x for x in found if x > 1000 and x % 1024 == 16]

    products = 4 if encoder.config.hidden_size == 1024 else 1
    assert len(spaced(encoder)) == products * encoder.config.num_hidden_layers
    assert not spaced(encoder, training=True)
    config = encoder.config.replace(sharing="none")
    assert not spaced(AlbertEncoder(config))


def test_gradients_are_equal(encoder, batch):
    """Without dropout, as for adversarial inputs or saliency."""
    gradients = []
    for model in (encoder, unspaced(encoder)):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(batch)["sequence_output"] ** 3)
        variables = [weight.value for weight in model.trainable_weights]
        gradients.append(
            tape.gradient(loss, variables, unconnected_gradients="zero")
        )
    # Those of key biases are 0 but for rounding, so there is one limit for all.
    limit = 1e-5 * float(tf.linalg.global_norm(gradients[1]))
    for x, y in zip(*gradients, strict=True):
        assert float(tf.linalg.global_norm([x - y])) < limit


@pytest.mark.parametrize("dtype", ["float64", "mixed_bfloat16"])
def test_other_precisions_are_unchanged(config, batch, dtype):
    config = config.replace(intermediate_size=1024)
    encoder = AlbertEncoder(config, dtype=dtype)
    widths = product_widths(lambda: encoder(batch)["sequence_output"])
    assert 1024 in widths
    assert 1040 not in widths


def test_kernels_are_cast_once(config, batch):
    """For all layers, in each call, with equal bits."""
    encoder = AlbertEncoder(config, dtype="mixed_bfloat16")
    expected = unspaced(encoder)

    def casts(model):
        run = tf.function(lambda: model(batch)["sequence_output"])
        graph = run.get_concrete_function().graph
        return run, sum(
            x.type == "Cast" and x.inputs[0].op.type == "ReadVariableOp"
            for x in graph.get_operations()
        )

    (run, count), (run_expected, more) = map(casts, (encoder, expected))
    # The kernels and biases of attention's output and of the feed-forward.
    assert count == more - 6 * (config.num_hidden_layers - 1)
    for _ in range(2):
        x, y = (tf.cast(f(), "float32") for f in (run, run_expected))
        np.testing.assert_array_equal(x, y)
        weights = [weight * 1.5 for weight in encoder.get_weights()]
        encoder.set_weights(weights)
        expected.set_weights(weights)


def test_runtimes_lay_out_kernels_themselves(encoder):
    """Graphs for LiteRT have the kernels of the checkpoint."""
    graph = ConstantGraph(encoder_program(encoder, seq_length=8))
    operations = graph.serve.get_concrete_function().graph.get_operations()
    widths = [x.outputs[0].shape[-1] for x in operations if x.type == "MatMul"]
    assert not [x for x in widths if x > 1000 and x % 1024 == 16]
    assert [x for x in widths if x >= 1024]


@pytest.mark.parametrize("columns", [1000, 1024, 1536, 3072])
def test_space(columns):
    kernel, bias = np.ones([3, columns], "float32"), np.ones(columns, "float32")
    wide, wide_bias = spaced_kernels.space(kernel, bias)
    added = 16 if columns % 1024 == 0 else 0
    assert wide.shape == (3, columns + added)
    assert wide_bias.shape == (columns + added,)
    np.testing.assert_array_equal(wide[:, :columns], kernel)
    np.testing.assert_array_equal(wide[:, columns:], 0)
    np.testing.assert_array_equal(wide_bias[columns:], 0)
