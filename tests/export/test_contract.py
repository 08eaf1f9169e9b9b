"""TF-Hub's contract of encoders, on a published kind of export and on ours.

What holds for Model Garden's export must hold for ours, which also solves
problems of the former. test_preprocessor_contract.py is about preprocessors.
"""

import numpy as np
import pytest
import tensorflow as tf

ENCODER_WEIGHTS = 25
MLM_WEIGHTS = 30
OUTPUTS = {"sequence_output", "pooled_output", "encoder_outputs"}


@pytest.fixture(scope="module")
def published(model_garden_path):
    return tf.saved_model.load(model_garden_path)


@pytest.fixture(scope="module")
def ours(encoder_path):
    return tf.saved_model.load(encoder_path)


@pytest.fixture(
    scope="module",
    params=[pytest.param("published", marks=pytest.mark.long), "ours"],
)
def encoder(request):
    return request.getfixturevalue(request.param)


def batch(length=6, dtype="int32", **others):
    ids = np.full([2, length], 5, dtype)
    ones, zeros = np.ones_like(ids), np.zeros_like(ids)
    inputs = {
        "input_word_ids": ids,
        "input_mask": ones,
        "input_type_ids": zeros,
        **others,
    }
    return {name: tf.constant(array) for name, array in inputs.items()}


def test_outputs(encoder):
    outputs = encoder(batch())
    assert set(outputs) == {*OUTPUTS, "default"}
    batch_size, length, hidden = outputs["sequence_output"].shape
    assert (batch_size, length) == (2, 6)
    assert outputs["pooled_output"].shape == (2, hidden)
    np.testing.assert_array_equal(outputs["default"], outputs["pooled_output"])
    layers = outputs["encoder_outputs"]
    assert isinstance(layers, list)
    assert all(layer.shape == (2, 6, hidden) for layer in layers)
    np.testing.assert_array_equal(layers[-1], outputs["sequence_output"])
    assert {tensor.dtype for tensor in tf.nest.flatten(outputs)} == {tf.float32}


def test_any_size(encoder):
    for length in (1, 16):
        outputs = encoder(batch(length))
        assert outputs["sequence_output"].shape[1] == length


@pytest.fixture
def is_random(has_dropout):
    """Returns whether calls of an endpoint are random."""

    def is_random(endpoint, inputs, **arguments):
        return has_dropout(
            lambda: endpoint(inputs, **arguments)["sequence_output"]
        )

    return is_random


def test_training_applies_dropout(encoder, is_random):
    assert not is_random(encoder, batch())
    assert not is_random(encoder, batch(), training=False)
    assert is_random(encoder, batch(), training=True)


def test_dropout_of_heads_and_of_the_endpoint_for_training(ours, is_random):
    mlm = batch(masked_lm_positions=np.zeros([2, 1], "int32"))
    assert not is_random(ours.mlm, mlm)
    assert is_random(ours.mlm, mlm, training=True)
    assert is_random(ours.sop, batch(), training=True)
    assert is_random(ours.call_training, batch())


@pytest.mark.parametrize("head", ["mlm", "sop"])
def test_gradients_reach_all_variables(ours, head):
    endpoint = getattr(ours, head)
    more = {"masked_lm_positions": np.ones([2, 2], "int32")}
    inputs = batch(**(more if head == "mlm" else {}))
    with tf.GradientTape() as tape:
        logits = endpoint(inputs, training=True)[f"{head}_logits"]
        loss = tf.reduce_sum(logits**2)
    gradients = tape.gradient(loss, endpoint.trainable_variables)
    for variable, gradient in zip(
        endpoint.trainable_variables, gradients, strict=True
    ):
        # The masked language model does not use the pooler.
        unused = head == "mlm" and "pooler" in variable.name
        assert gradient is not None or unused, variable.name


def test_variables(encoder):
    for endpoint, count in (
        (encoder, ENCODER_WEIGHTS),
        (encoder.mlm, MLM_WEIGHTS),
    ):
        assert len(endpoint.variables) == count
        assert len(endpoint.trainable_variables) == count
        assert all(v.trainable for v in endpoint.trainable_variables)
        assert list(endpoint.regularization_losses) == []
    shared = {id(v) for v in encoder.variables}
    assert len(shared & {id(v) for v in encoder.mlm.variables}) == len(shared)


def test_masked_language_model(encoder):
    positions = np.array([[1, 2, 0], [3, 0, 0]], "int32")
    outputs = encoder.mlm(batch(masked_lm_positions=positions))
    assert set(outputs) == {*OUTPUTS, "mlm_logits"}
    vocab_size = encoder.variables[0].shape[0]
    assert outputs["mlm_logits"].shape == (2, 3, vocab_size)
    # Padded positions are 0, the first token.
    np.testing.assert_allclose(
        outputs["mlm_logits"][1, 1], outputs["mlm_logits"][1, 2], atol=1e-6
    )


def test_other_inputs_are_rejected(encoder):
    known = batch()
    without_types = {k: v for k, v in known.items() if k != "input_type_ids"}
    another_key = {**known, "something": known["input_mask"]}
    for inputs in (another_key, without_types, list(known.values())):
        with pytest.raises(ValueError, match="Could not find matching"):
            encoder(inputs)


# The rest is about problems of the published encoders that ours solve.


def test_signature_names_its_outputs(published, ours):
    def outputs(encoder):
        return set(encoder.signatures["serving_default"].structured_outputs)

    assert not outputs(published) & OUTPUTS
    assert outputs(ours) == {"sequence_output", "pooled_output"}


def test_the_error_for_long_inputs_names_the_limit(published, ours):
    def error(call, *inputs, **named):
        with pytest.raises(
            (ValueError, tf.errors.InvalidArgumentError)
        ) as caught:
            call(*inputs, **named)
        return str(caught.value)

    too_long = batch(41)
    positions = np.zeros([2, 1], "int32")
    says = "max_position_embeddings_40"
    assert "max_position" not in error(published, too_long)
    assert says in error(ours, too_long)
    assert says in error(ours, too_long, training=True)
    assert says in error(ours.call_training, too_long)
    assert says in error(ours.sop, too_long)
    assert says in error(ours.mlm, batch(41, masked_lm_positions=positions))
    message = error(ours.signatures["serving_default"], **too_long)
    assert "max_position_embeddings=40; shorten the inputs" in message


def test_int64_inputs(published, ours):
    inputs = batch(dtype="int64")
    with pytest.raises(ValueError, match="Could not find matching"):
        published(inputs)
    np.testing.assert_array_equal(
        ours(inputs)["pooled_output"], ours(batch())["pooled_output"]
    )
    positions = np.zeros([2, 1], "int64")
    with_positions = batch(dtype="int64", masked_lm_positions=positions)
    assert ours.mlm(with_positions)["mlm_logits"].shape[1] == 1
    assert ours.sop(inputs, training=True)["sop_logits"].shape == (2, 2)
    assert ours.call_training(inputs)["pooled_output"].shape[0] == 2


def test_the_sentence_order_head(published, ours):
    assert not hasattr(published, "sop")
    outputs = ours.sop(batch())
    assert set(outputs) == {*OUTPUTS, "sop_logits"}
    assert outputs["sop_logits"].shape == (2, 2)
    assert len(ours.sop.trainable_variables) == ENCODER_WEIGHTS + 2
