"""Rematerialization does not change results."""

import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.layers.dropout import dropout_seeds
from albert_tf.models.pretrainer import AlbertPretrainer

SCRIPT = pathlib.Path(__file__).parent / "scripts/rematerialized_gradients.py"
DROPOUT = {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.1}
CASES = [
    {},
    {"sharing": "none"},
    {"num_hidden_groups": 2, "inner_group_num": 2, "sharing": "ffn"},
]


@pytest.fixture
def inputs(batch):
    positions = np.array([[1, 4], [2, 0], [5, 9], [3, 0]], "int32")
    return {**batch, "masked_lm_positions": positions}


def pair(config, **arguments):
    """The same pretrainer without and with rematerialization."""
    models = [
        AlbertPretrainer(config, rematerialize=on, **arguments)
        for on in (False, True)
    ]
    models[1].set_weights(models[0].get_weights())
    return models


def gradients(model, inputs, run, seed=(7, 8)):
    """Returns the gradients and the loss of a training step."""

    def step(seed):
        with tf.GradientTape() as tape, dropout_seeds(seed):
            outputs = model(inputs, training=True)
            loss = tf.reduce_mean(outputs["mlm_logits"] ** 2)
            loss += tf.reduce_mean(tf.sin(outputs["sop_logits"]))
        found = tape.gradient(loss, model.trainable_variables)
        return [tf.convert_to_tensor(g) for g in found] + [loss]

    if run != "eager":
        step = tf.function(step, jit_compile=run == "xla", autograph=False)
    found = step(tf.constant(seed, tf.int32))
    return [tf.cast(x, tf.float32).numpy() for x in found]


def difference(models, inputs, run, **arguments):
    """Returns the largest difference relative to the largest gradient."""
    plain, again = (gradients(m, inputs, run, **arguments) for m in models)
    # Relative to the largest of all gradients, as that of a key's bias is only
    # rounding.
    scale = max(np.abs(x).max() for x in plain)
    return max(
        np.abs(a - b).max() / scale for a, b in zip(plain, again, strict=True)
    )


@pytest.mark.parametrize(
    ("changes", "packed"), [*((c, False) for c in CASES), (CASES[-1], True)]
)
def test_gradients_are_bit_equal(config, inputs, changes, packed):
    models = pair(config.replace(**changes, **DROPOUT), packed=packed)
    assert difference(models, inputs, "eager") == 0.0


@pytest.mark.parametrize(
    ("layers", "packed"),
    [(1, False), pytest.param(2, True, marks=pytest.mark.long)],
)
def test_gradients_are_equal_in_a_graph(config, inputs, layers, packed):
    config = config.replace(
        num_hidden_layers=layers, num_hidden_groups=layers, **DROPOUT
    )
    models = pair(config, packed=packed)
    # In the plain model, TensorFlow fuses operations whose results are not
    # kept, which rounds differently: by up to 1.05e-6 on several machines.
    assert difference(models, inputs, "graph") < 5e-6


@pytest.mark.slow
@pytest.mark.parametrize("changes", CASES, ids=str)
def test_gradients_are_equal_under_xla(config, inputs, changes):
    models = pair(config.replace(**changes, **DROPOUT))
    assert difference(models, inputs, "xla") < 5e-6


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_gradients_are_bit_equal_in_mixed_precision(config, inputs, policy):
    models = pair(config.replace(**DROPOUT), dtype=policy)
    assert difference(models, inputs, "eager") == 0.0


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_frozen_and_without_dropout(config, inputs, rate):
    models = pair(config.replace(hidden_dropout_prob=rate))
    for model in models:
        model.encoder.stack.feed_forwards[0].trainable = False
    assert difference(models, inputs, "eager") == 0.0


def read(variables):
    return [keras.ops.convert_to_numpy(v.value) for v in variables]


def test_dropout_of_keras_generator_repeats_in_the_backward_pass(
    config, inputs
):
    """In `fit`, loss and gradient use the same masks."""
    keras.utils.set_random_seed(3)
    model = pair(config.replace(**DROPOUT))[1]
    variables = model.trainable_variables
    states = [v for v in model.variables if v.path.endswith("generator_state")]
    assert states
    start = read(states)
    rng = np.random.default_rng(0)
    direction = [rng.normal(0, 1, v.shape).astype("float32") for v in variables]

    def loss(shift):
        for state, value in zip(states, start, strict=True):
            state.assign(value)
        for variable, step in zip(variables, direction, strict=True):
            variable.assign_add(shift * step)
        with tf.GradientTape() as tape:
            outputs = model(inputs, training=True)
            value = tf.reduce_mean(tf.sin(outputs["mlm_logits"]))
        slopes = tape.gradient(value, variables)
        for variable, step in zip(variables, direction, strict=True):
            variable.assign_sub(shift * step)
        slope = sum(
            float(tf.reduce_sum(tf.convert_to_tensor(g) * d))
            for g, d in zip(slopes, direction, strict=True)
            if g is not None
        )
        return float(value), slope

    value, slope = loss(0.0)
    assert loss(0.0) == (value, slope)
    step = 1e-3
    measured = (loss(step)[0] - loss(-step)[0]) / (2 * step)
    # Other masks would change the slope by about its size; float32 rounds the
    # quotient to about 1e-4.
    assert abs(measured - slope) < 0.02 * abs(slope), (measured, slope)
    model(inputs, training=True)
    moved = [np.any(s != v) for s, v in zip(read(states), start, strict=True)]
    assert any(moved)


def test_inference_graph_is_unchanged(config, inputs):
    """The graphs have the same operations."""

    def operations(model):
        graph = (
            tf.function(model, autograph=False)
            .get_concrete_function(inputs)
            .graph
        )
        return [op.type for op in graph.get_operations()]

    plain, again = map(operations, pair(config))
    assert plain == again


def test_every_model_has_the_argument(config, make):
    model = make(config, rematerialize=True)
    encoder = getattr(model, "encoder", model)
    assert encoder.stack.rematerialize
    again = type(model).from_config(model.get_config())
    assert getattr(again, "encoder", again).stack.rematerialize
    assert "rematerialize" in again.get_config()


@pytest.mark.backend
def test_other_backends(backend, run_script):
    printed = run_script(SCRIPT, backend)
    found = json.loads(printed.splitlines()[-1])
    # JAX compiles a block as a whole, and may round differently.
    assert found["difference"] < 5e-6
    assert found["less_memory"] < 0.7 * found["memory"]
    assert found["losses"][-1] < found["losses"][0]
