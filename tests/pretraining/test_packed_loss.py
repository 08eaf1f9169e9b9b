"""Rows of several sequences beside the same sequences in rows of their own."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.objectives.fit import PretrainingModel
from albert_tf.objectives.masked_language_modeling import MaskedLanguageModeling
from albert_tf.training.loss import WEIGHTS

LENGTH, PREDICTIONS, SEQUENCES = 32, 6, 3
# Sequences of four rows, by their numbers, and of each its tokens and masks.
ROWS = ((0, 1), (2,), (3, 4, 5), (6, 7))
SIZES = ((9, 2), (20, 3), (32, 5), (5, 1), (17, 2), (10, 3), (11, 0), (12, 2))
SINGLE = (2, 6)  # have one segment, and no order

# Equal sums in another order: rounding of float32, beside gradients of size 1.
TOLERANCE = 2e-6


@pytest.fixture(scope="module")
def config(tiny_model):
    """Without dropout, whose draws would be others in other shapes."""
    return tiny_model.replace(
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )


@pytest.fixture(scope="module")
def sequences():
    rng = np.random.default_rng(0)
    return [
        {
            "input_word_ids": rng.integers(5, 600, size),
            "input_type_ids": (
                (np.arange(size) > size // 2) & (number not in SINGLE)
            ).astype(int),
            "positions": np.sort(rng.choice(size, masks, replace=False)),
            "labels": rng.integers(5, 600, masks),
            "order": int(rng.integers(2)),
            "weight": number not in SINGLE,
        }
        for number, (size, masks) in enumerate(SIZES)
    ]


def batch_of(rows, sequences):
    """Returns a batch of `pretraining_dataset` with all inputs of packing."""
    tokens = (len(rows), LENGTH)
    predictions = (len(rows), PREDICTIONS)
    numbers = (len(rows), SEQUENCES)
    batch = {
        name: np.zeros(shape, np.int32)
        for names, shape in (
            (("input_word_ids", "input_mask", "input_type_ids"), tokens),
            (("sequence_ids",), tokens),
            (("masked_lm_positions", "masked_lm_ids"), predictions),
            (("sequence_starts", "sentence_order_labels"), numbers),
        )
        for name in names
    }
    batch["masked_lm_weights"] = np.zeros(predictions, np.float32)
    batch["sentence_order_weights"] = np.zeros(numbers, np.float32)
    for row, members in enumerate(rows):
        start = slot = 0
        for number, member in enumerate(members):
            each = sequences[member]
            end = start + len(each["input_word_ids"])
            for name in ("input_word_ids", "input_type_ids"):
                batch[name][row, start:end] = each[name]
            batch["input_mask"][row, start:end] = 1
            batch["sequence_ids"][row, start:end] = number + 1
            batch["sequence_starts"][row, number] = start
            batch["sentence_order_labels"][row, number] = each["order"]
            batch["sentence_order_weights"][row, number] = each["weight"]
            slots = slice(slot, slot + len(each["positions"]))
            batch["masked_lm_positions"][row, slots] = each["positions"] + start
            batch["masked_lm_ids"][row, slots] = each["labels"]
            batch["masked_lm_weights"][row, slots] = 1
            start, slot = end, slots.stop
    return {name: tf.constant(value) for name, value in batch.items()}


@pytest.fixture(scope="module")
def packed(sequences):
    return batch_of(ROWS, sequences)


@pytest.fixture(scope="module")
def unpacked(sequences):
    """One sequence a row, without the inputs of packing."""
    batch = batch_of([(n,) for n in range(len(sequences))], sequences)
    for name in ("sequence_ids", "sequence_starts"):
        del batch[name]
    for name in ("sentence_order_labels", "sentence_order_weights"):
        batch[name] = batch[name][:, 0]
    return batch


@pytest.fixture(scope="module")
def weights(config):
    keras.utils.set_random_seed(1)
    return AlbertPretrainer(config).get_weights()


def eagerly(function):
    return function


def step(model, batch, micro_batches=1, run=eagerly):
    """Returns metrics and gradients by name, summed over micro-batches."""
    loss = MaskedLanguageModeling()

    @run
    def train(batch):
        normalizers = loss.normalizers(batch)
        sums = []
        size = batch["input_mask"].shape[0] // micro_batches
        for first in range(0, size * micro_batches, size):
            part = {k: v[first : first + size] for k, v in batch.items()}
            with tf.GradientTape() as tape:
                # Training, for rematerialization; there is no dropout.
                value, metrics = loss(
                    model, part, normalizers, tf.constant([1, 2])
                )
            found = tape.gradient(value, model.trainable_variables)
            named = {
                variable.path: tf.convert_to_tensor(gradient)
                for variable, gradient in zip(
                    model.trainable_variables, found, strict=True
                )
            }
            metrics.pop("tokens")  # Its weight counts micro-batches.
            sums.append({"loss": value} | metrics | named)
        return {name: sum(part[name] for part in sums) for name in sums[0]}

    return {name: value.numpy() for name, value in train(batch).items()}


@pytest.fixture(scope="module")
def expected(config, weights, unpacked):
    model = AlbertPretrainer(config)
    model.set_weights(weights)
    return step(model, unpacked)


@pytest.mark.parametrize(
    ("arguments", "micro_batches", "run"),
    [
        ({}, 1, eagerly),
        ({"packed": True}, 1, eagerly),
        ({"rematerialize": True}, 2, eagerly),
        ({}, 4, eagerly),  # One micro-batch has no order to predict.
        pytest.param(
            *({}, 1, tf.function(jit_compile=True)), marks=pytest.mark.long
        ),
    ],
    ids=["plain", "unpadded", "rematerialized", "micro_batches", "xla"],
)
def test_loss_and_gradients_are_those_of_unpacked_rows(
    config, weights, packed, expected, arguments, micro_batches, run
):
    model = AlbertPretrainer(config, **arguments)
    model.set_weights(weights)
    found = step(model, packed, micro_batches, run)
    assert found.keys() == expected.keys()
    for name, value in found.items():
        np.testing.assert_allclose(
            value, expected[name], rtol=1e-5, atol=TOLERANCE, err_msg=name
        )
    for name in ("sop_loss", "sop_accuracy"):
        assert found[name][1] == len(SIZES) - len(SINGLE)
    np.testing.assert_array_equal(
        found["mlm_loss"][1], sum(masks for _, masks in SIZES)
    )


def test_labels_of_weight_zero_count_nothing(config, weights, packed, expected):
    orders = packed["sentence_order_labels"]
    has_order = packed["sentence_order_weights"] > 0
    others = tf.where(has_order, orders, 1 - orders)
    model = AlbertPretrainer(config)
    model.set_weights(weights)
    found = step(model, {**packed, "sentence_order_labels": others})
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=TOLERANCE)


def loss_of_fit(model, batch):
    """Returns the loss of Keras's `fit` on a batch."""
    training = PretrainingModel(model, MaskedLanguageModeling())
    training.compile("sgd", run_eagerly=True)
    data = tf.data.Dataset.from_tensors(batch)
    return training.fit(data, verbose=0).history["loss"][0]


def test_batches_without_an_order(config, weights, packed, unpacked):
    """Their loss is that of the masked words; nothing is divided by 0."""
    for batch in (packed, unpacked):
        zeros = tf.zeros_like(batch["sentence_order_weights"])
        batch = {**batch, "sentence_order_weights": zeros}
        model = AlbertPretrainer(config)
        model.set_weights(weights)
        found = step(model, batch)
        mlm_sum, number = found["mlm_loss"]
        assert found["loss"] == pytest.approx(mlm_sum / number)
        assert not found["sop_loss"].any()
        for variable in model.trainable_variables:
            assert np.isfinite(found[variable.path]).all()
            if "sop" in variable.path or "sentence_order" in variable.path:
                assert not found[variable.path].any()
        assert loss_of_fit(model, batch) == pytest.approx(
            found["loss"], rel=1e-5
        )


def test_rows_of_weight_zero_count_nothing(config, weights, packed, expected):
    """As evaluation fills up its batches."""
    model = AlbertPretrainer(config)
    model.set_weights(weights)
    filled = {k: tf.concat([v, v[:2]], 0) for k, v in packed.items()}
    found = step(model, {**filled, WEIGHTS: tf.constant([1.0] * 4 + [0.0] * 2)})
    for name in ("loss", "mlm_loss", "sop_loss", "mlm_accuracy"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5)


def test_fit_has_the_same_loss(config, weights, packed, unpacked, expected):
    for batch in (packed, unpacked):
        model = AlbertPretrainer(config)
        model.set_weights(weights)
        assert loss_of_fit(model, batch) == pytest.approx(
            expected["loss"], rel=1e-5
        )


@pytest.mark.parametrize("unpadded", [False, True])
def test_outputs_of_the_encoder(config, packed, unpacked, unpadded):
    names = ("input_word_ids", "input_mask", "input_type_ids")
    encoder = AlbertEncoder(config, packed=unpadded)
    alone = encoder({name: unpacked[name] for name in names})
    inputs = {
        name: packed[name]
        for name in (*names, "sequence_ids", "sequence_starts")
    }
    rows = encoder(inputs)
    pooled = rows["pooled_output"]
    assert pooled.shape == (len(ROWS), SEQUENCES, config.hidden_size)
    states = rows["sequence_output"].numpy()[packed["input_mask"] == 1]
    np.testing.assert_allclose(
        states,
        alone["sequence_output"].numpy()[unpacked["input_mask"] == 1],
        atol=1e-5,
    )
    numbers = np.max(packed["sequence_ids"], axis=1, keepdims=True)
    present = np.arange(SEQUENCES) < numbers
    np.testing.assert_allclose(
        pooled.numpy()[present], alone["pooled_output"], atol=1e-5
    )
    np.testing.assert_allclose(
        encoder.pooled_output(inputs).numpy()[present],
        alone["pooled_output"],
        atol=1e-5,
    )


def test_encoder_is_a_layer_of_a_functional_model(config, packed):
    names = ("input_word_ids", "input_mask", "input_type_ids")
    inputs = {
        name: keras.Input(packed[name].shape[1:], dtype="int32")
        for name in (*names, "sequence_ids", "sequence_starts")
    }
    pooled = AlbertEncoder(config)(inputs)["pooled_output"]
    assert pooled.shape == (None, SEQUENCES, config.hidden_size)
    model = keras.Model(inputs, keras.layers.Dense(1)(pooled))
    outputs = model({name: packed[name] for name in inputs})
    assert outputs.shape == (len(ROWS), SEQUENCES, 1)


def test_inputs_of_packing_go_together(config, packed):
    names = (*AlbertPretrainer.INPUTS, "sequence_ids")
    with pytest.raises(ValueError, match="need sequence_ids and sequence_sta"):
        AlbertPretrainer(config)({name: packed[name] for name in names})
