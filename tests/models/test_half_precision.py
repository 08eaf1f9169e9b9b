"""Gradients and training in half precision."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from architectures import SMALL

from albert_tf.config import ACTIVATIONS
from albert_tf.errors import InputError
from albert_tf.finetuning.multiple_choice.model import AlbertMultipleChoice
from albert_tf.finetuning.question_answering.model import (
    AlbertQuestionAnswering,
)
from albert_tf.finetuning.text_classification.model import AlbertClassifier
from albert_tf.finetuning.token_classification.model import (
    AlbertTokenClassifier,
)
from albert_tf.layers.core import activation
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.text.packing import ENCODER_INPUTS

BATCH, LENGTH = 64, 64
NARROW = SMALL.replace(max_position_embeddings=LENGTH)


def tokens(*shape):
    rng = np.random.default_rng(0)
    ids = rng.integers(5, NARROW.vocab_size, shape, "int32")
    return {
        "input_word_ids": np.where(rng.random(shape) < 0.15, 4, ids),
        "input_mask": np.ones_like(ids),
        "input_type_ids": (ids > 25).astype("int32"),
    }


def masked(inputs):
    positions = np.tile(np.arange(LENGTH, dtype="int32"), (BATCH, 1))
    return {**inputs, "masked_lm_positions": positions}


ROWS, CHOICES = tokens(BATCH, LENGTH), tokens(BATCH // 2, 2, LENGTH)
# Every token has a loss, so that heads see 4,096 rows as well.
MODELS = {
    "encoder": (AlbertEncoder, (), ROWS),
    "pretrainer": (AlbertPretrainer, (), masked(ROWS)),
    "classifier": (AlbertClassifier, (3,), tokens(4096, 2)),
    "token classifier": (AlbertTokenClassifier, (3,), ROWS),
    "multiple choice": (AlbertMultipleChoice, (), CHOICES),
    "spans": (AlbertQuestionAnswering, ("v1",), ROWS),
    "joint spans": (
        AlbertQuestionAnswering,
        ("joint",),
        {
            **ROWS,
            "p_mask": 1 - ROWS["input_mask"],
            "start_positions": np.arange(BATCH, dtype="int32"),
        },
    ),
}


def gradients(name, dtype, weights=None, **options):
    """Returns path -> gradient of a loss that sums over all rows."""
    make, arguments, inputs = MODELS[name]
    model = make(NARROW, *arguments, dtype=dtype)
    if weights is not None:
        model.set_weights(weights)

    def run(inputs):
        with tf.GradientTape() as tape:
            loss = 0.0
            for output in tf.nest.flatten(model(inputs)):
                output = tf.cast(output, tf.float32)
                # The same factors in all rows, so that gradients add up.
                factors = np.random.default_rng(1).normal(size=output.shape[-1])
                loss += tf.reduce_sum(output * factors.astype("float32"))
        variables = [v.value for v in model.trainable_variables]
        return tape.gradient(loss, variables)

    if options:  # Without, a graph takes seconds to make, and shows no more.
        run = tf.function(run, autograph=False, **options)
    found = run({k: tf.constant(x) for k, x in inputs.items()})
    paths = [v.path for v in model.trainable_variables]
    found = [np.asarray(tf.cast(x, tf.float32)).ravel() for x in found]
    return dict(zip(paths, found, strict=True)), model.get_weights()


@pytest.fixture(scope="module", params=MODELS)
def expected(request):
    """A model's name, and its gradients and weights in float32."""
    keras.utils.set_random_seed(1)
    return request.param, *gradients(request.param, "float32")


def models_in(dtype, *others):
    """Parametrizes by all models in `dtype`, and two of them in `others`."""
    two = ("pretrainer", "joint spans")
    return pytest.mark.parametrize(
        ("expected", "dtype"),
        [(name, dtype) for name in MODELS]
        + [(name, other) for name in two for other in others],
        indirect=["expected"],
        scope="module",
    )


# Parameters whose gradient is zero, as they shift all inputs of a softmax.
_SHIFTS = (
    "attention/key/bias",
    "joint_span_head/start/bias",
    "joint_span_head/end/output/bias",
    "joint_span_head/end/layer_norm/beta",
)


def check_gradients(expected, dtype, **options):
    name, wanted, weights = expected
    found, _ = gradients(name, dtype, weights, **options)
    cosines = {
        path: x
        @ wanted[path]
        / np.linalg.norm(x)
        / np.linalg.norm(wanted[path])
        for path, x in found.items()
        if not path.endswith(_SHIFTS)
    }
    assert not {
        p: cosine for p, cosine in cosines.items() if not cosine > 0.999
    }


@models_in("mixed_bfloat16", "mixed_float16")
def test_gradients_are_those_of_float32(expected, dtype):
    check_gradients(expected, dtype)


def test_gradients_of_float32_are_those_of_float64(expected):
    """Sums over 4,096 tokens are as accurate as float32 allows."""
    name, found, weights = expected
    wanted, _ = gradients(name, "float64", weights)
    for path, gradient in wanted.items():
        if not path.endswith(_SHIFTS):
            distance = np.linalg.norm(found[path] - gradient)
            # n roundings of 6e-8 add up to sqrt(n) * 6e-8 = 4e-6.
            assert distance < 2e-5 * np.linalg.norm(gradient), path


@pytest.mark.long
@pytest.mark.parametrize("expected", ["pretrainer"], indirect=True)
def test_gradients_with_xla_are_those_of_float32(expected):
    check_gradients(expected, "mixed_bfloat16", jit_compile=True)


@pytest.mark.slow
@models_in("mixed_bfloat16", "mixed_float16")
def test_all_gradients_with_xla_are_those_of_float32(expected, dtype):
    check_gradients(expected, dtype, jit_compile=True)


def check_fit(name, weights, dtype):
    """One step moves the weights, and nothing overflows."""
    make, arguments, inputs = MODELS[name]
    model = make(NARROW, *arguments, dtype=dtype)
    model.set_weights(weights)
    inputs = {key: x[:4] for key, x in inputs.items()}
    outputs = model(inputs)
    if isinstance(outputs, dict):
        outputs.pop("encoder_outputs", None)
        name = next(n for n in ("mlm_logits", *sorted(outputs)) if n in outputs)
        targets = {name: np.ones(outputs[name].shape)}
        losses = {name: "mse"}
    else:
        targets, losses = np.ones(outputs.shape), "mse"
    # Eagerly, as tracing takes longer than a step.
    model.compile(keras.optimizers.SGD(0.01), losses, run_eagerly=True)
    assert np.isfinite(model.train_on_batch(inputs, targets))
    assert np.isfinite(model.train_on_batch(inputs, targets))
    after = model.get_weights()
    assert all(np.all(np.isfinite(np.float32(x))) for x in after)
    moved = [
        np.any(np.float32(x) != np.float32(y))
        for x, y in zip(after, weights, strict=True)
    ]
    assert any(moved)


# Only float16 overflows.
@models_in("float16", "bfloat16")
def test_predicts_and_fits_in_half_precision(expected, dtype):
    name, _, weights = expected
    check_fit(name, weights, dtype)


# The gradients of every model in these are tested above.
@pytest.mark.parametrize("dtype", ["mixed_float16", "float64"])
def test_predicts_and_fits_in_other_precisions(dtype):
    weights = AlbertPretrainer(NARROW).get_weights()
    check_fit("pretrainer", weights, dtype)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_gradients_of_activations_are_finite(name):
    x = tf.constant([-6e4, -300.0, -41.0, -1.0, 0.5, 2.0, 41.0, 300.0, 6e4])

    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = activation(name)(x)
        return y, tape.gradient(y, x)

    for found, wanted in zip(run(tf.cast(x, "float16")), run(x), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=4e-3, atol=1e-3)


def test_logits_of_words_are_a_product_in_float32():
    inputs = masked(ROWS)
    found = AlbertPretrainer(NARROW, dtype="mixed_bfloat16")(inputs)
    logits = found["mlm_logits"].numpy()
    assert np.any(logits != tf.cast(tf.cast(logits, "bfloat16"), "float32"))


@pytest.mark.parametrize("mode", ["int8", "int4", "float8"])
def test_quantization_is_an_error(mode):
    model = AlbertClassifier(NARROW, 3)
    before = model.get_weights()
    with pytest.raises(InputError, match=f"quantize\\('{mode}'\\).*litert"):
        model.quantize(mode)
    # The same as part of another model.
    inputs = {
        name: keras.Input((4,), dtype="int32", name=name)
        for name in ENCODER_INPUTS
    }
    with pytest.raises(InputError, match="floating point"):
        keras.Model(inputs, model(inputs)).quantize(mode)
    for x, y in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(x, y)
    with pytest.raises(InputError, match="floating point"):
        AlbertClassifier(NARROW, 3, dtype=f"{mode}_from_float32")
