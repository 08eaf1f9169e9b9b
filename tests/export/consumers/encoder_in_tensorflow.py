"""Uses an exported encoder with nothing but TensorFlow and NumPy.

Usage: encoder_in_tensorflow.py ENCODER PACKED_ENCODER EXPECTED.npz NEW_FOLDER
"""

import pathlib
import shutil
import sys

import numpy as np
import tensorflow as tf

INPUTS = ("input_word_ids", "input_mask", "input_type_ids")
LONGEST = 40


def close(actual, desired, tolerance=1e-5):
    np.testing.assert_allclose(actual, desired, rtol=0, atol=tolerance)


def check_same_numbers(encoder, expected, inputs):
    outputs = encoder(inputs)
    assert set(outputs) == {
        "sequence_output",
        "pooled_output",
        "default",
        "encoder_outputs",
    }
    close(outputs["sequence_output"], expected["sequence_output"])
    close(outputs["pooled_output"], expected["pooled_output"])
    close(outputs["default"], expected["pooled_output"])
    assert isinstance(outputs["encoder_outputs"], list)
    close(np.stack(outputs["encoder_outputs"]), expected["encoder_outputs"])

    as_int64 = {name: tf.cast(x, tf.int64) for name, x in inputs.items()}
    close(encoder(as_int64)["pooled_output"], expected["pooled_output"])


def check_heads(encoder, expected, inputs):
    positions = tf.constant(expected["masked_lm_positions"])
    mlm = encoder.mlm({**inputs, "masked_lm_positions": positions})
    assert set(mlm) == {
        "mlm_logits",
        "sequence_output",
        "pooled_output",
        "encoder_outputs",
    }
    close(mlm["mlm_logits"], expected["mlm_logits"])
    close(mlm["sequence_output"], expected["sequence_output"])
    sop = encoder.sop(inputs)
    close(sop["sop_logits"], expected["sop_logits"])
    close(sop["pooled_output"], expected["pooled_output"])


def check_named_signature(encoder, expected, inputs):
    outputs = encoder.signatures["serving_default"](**inputs)
    assert set(outputs) == {"sequence_output", "pooled_output"}
    close(outputs["sequence_output"], expected["sequence_output"])
    close(outputs["pooled_output"], expected["pooled_output"])


def check_dropout(encoder, inputs):
    def spread(call):
        draws = [call()["sequence_output"] for _ in range(3)]
        return float(np.max(np.std(draws, axis=0)))

    positions = tf.zeros([4, 1], tf.int32)
    with_positions = {**inputs, "masked_lm_positions": positions}
    assert spread(lambda: encoder(inputs)) < 1e-6
    assert spread(lambda: encoder(inputs, training=False)) < 1e-6
    assert spread(lambda: encoder.mlm(with_positions)) < 1e-6
    assert spread(lambda: encoder(inputs, training=True)) > 1e-3
    assert spread(lambda: encoder.call_training(inputs)) > 1e-3
    assert spread(lambda: encoder.mlm(with_positions, training=True)) > 1e-3
    assert spread(lambda: encoder.sop(inputs, training=True)) > 1e-3


def check_variables(encoder, expected):
    count = int(expected["encoder_weights"])
    for endpoint, head in ((encoder, 0), (encoder.mlm, 5), (encoder.sop, 2)):
        assert len(endpoint.variables) == count + head
        assert len(endpoint.trainable_variables) == count + head
        assert all(v.trainable for v in endpoint.trainable_variables)
        assert list(endpoint.regularization_losses) == []
        for own, roots in zip(
            endpoint.variables[:count], encoder.variables, strict=True
        ):
            assert own is roots
    names = [variable.name for variable in encoder.variables]
    assert len(set(names)) == count
    assert "encoder/embeddings/word_embeddings:0" in names


def check_gradients(encoder, inputs):
    positions = tf.ones([4, 2], tf.int32)
    for endpoint, batch, output in (
        (encoder.sop, inputs, "sop_logits"),
        (
            encoder.mlm,
            {**inputs, "masked_lm_positions": positions},
            "mlm_logits",
        ),
    ):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(endpoint(batch, training=True)[output] ** 2)
        gradients = tape.gradient(loss, endpoint.trainable_variables)
        unused = [
            variable.name
            for variable, gradient in zip(
                endpoint.trainable_variables, gradients, strict=True
            )
            if gradient is None
        ]
        # The masked language model does not look at the pooler.
        assert not unused or (
            output == "mlm_logits" and all("pooler" in name for name in unused)
        ), unused


def check_too_long(encoder):
    ids = tf.ones([1, LONGEST + 1], tf.int32)
    inputs = dict.fromkeys(INPUTS, ids)
    spec = dict.fromkeys(INPUTS, tf.TensorSpec([None, None], tf.int32))

    @tf.function(input_signature=[spec], autograph=False)
    def in_graph(inputs):
        return encoder(inputs)["pooled_output"]

    for call in (encoder, in_graph):
        try:
            call(inputs)
        except (ValueError, tf.errors.InvalidArgumentError) as error:
            message = str(error)
        assert "max_position_embeddings" in message, message
        assert str(LONGEST) in message, message
    just_fits = dict.fromkeys(INPUTS, ids[:, 1:])
    assert encoder(just_fits)["pooled_output"].shape == [1, 16]


def check_xla(encoder, expected, inputs):
    @tf.function(jit_compile=True, autograph=False)
    def infer(inputs):
        return encoder(inputs)["sequence_output"]

    @tf.function(jit_compile=True, autograph=False)
    def step(inputs):
        with tf.GradientTape() as tape:
            outputs = encoder(inputs, training=True)
            loss = tf.reduce_sum(outputs["pooled_output"] ** 2)
        return tape.gradient(loss, encoder.trainable_variables[5])

    close(infer(inputs), expected["sequence_output"])
    assert np.any(step(inputs) != 0)


def check_packed(packed, expected, inputs):
    outputs = packed(inputs)
    real = expected["input_mask"][:, :, None]
    for name in ("sequence_output", "encoder_outputs"):
        # Zeros on padding.
        close(np.stack(outputs[name]), expected[name] * real)
    close(outputs["pooled_output"], expected["pooled_output"])
    close(packed.sop(inputs)["sop_logits"], expected["sop_logits"])
    positions = tf.constant(expected["masked_lm_positions"])
    mlm = packed.mlm({**inputs, "masked_lm_positions": positions})
    close(mlm["mlm_logits"], expected["mlm_logits"])
    assert not hasattr(packed, "sp_model_file")


def check_tokenizer(encoder, path):
    assert encoder.do_lower_case.numpy() is np.True_
    asset = pathlib.Path(encoder.sp_model_file.asset_path.numpy().decode())
    assert asset.is_relative_to(path)
    assert asset.read_bytes()


def check_keras_3(path, expected, inputs):
    keras = tf.keras
    assert keras.__version__.startswith("3.")
    layer = keras.layers.TFSMLayer(
        path, call_endpoint="__call__", call_training_endpoint="call_training"
    )
    symbols = {
        name: keras.Input((None,), dtype="int32", name=name) for name in INPUTS
    }
    pooled = layer(symbols)["pooled_output"]
    model = keras.Model(symbols, keras.layers.Dense(1)(pooled))
    count = int(expected["encoder_weights"])
    assert len(model.trainable_weights) == count + 2

    batch = {name: tf.constant(x) for name, x in inputs.items()}
    close(layer(batch)["pooled_output"], expected["pooled_output"])
    draws = [layer(batch, training=True)["pooled_output"] for _ in range(3)]
    assert np.max(np.std(draws, axis=0)) > 1e-3

    before = [weight.numpy() for weight in layer.weights]
    model.compile("adam", "mse")
    # TFSMLayer puts a colon into the names of weights, which an optimizer built
    # inside a graph cannot bear.
    model.optimizer.build(model.trainable_variables)
    model.fit(batch, np.arange(4.0), verbose=0)
    for weight, value in zip(layer.weights, before, strict=True):
        assert np.any(weight.numpy() != value), weight.path


def check_saved_again(path, new_folder, expected, inputs):
    first, second = new_folder / "first", new_folder / "second"
    shutil.copytree(path, first)
    loaded = tf.saved_model.load(first)
    tf.saved_model.save(loaded, second, signatures=loaded.signatures)
    shutil.rmtree(first)
    encoder = tf.saved_model.load(second)
    check_same_numbers(encoder, expected, inputs)
    check_heads(encoder, expected, inputs)
    check_named_signature(encoder, expected, inputs)
    check_variables(encoder, expected)
    check_tokenizer(encoder, second)


def main(path, packed_path, expected_path, new_folder):
    expected = np.load(expected_path)
    inputs = {name: tf.constant(expected[name]) for name in INPUTS}
    encoder = tf.saved_model.load(path)
    check_same_numbers(encoder, expected, inputs)
    check_heads(encoder, expected, inputs)
    check_named_signature(encoder, expected, inputs)
    check_dropout(encoder, inputs)
    check_variables(encoder, expected)
    check_gradients(encoder, inputs)
    check_too_long(encoder)
    check_xla(encoder, expected, inputs)
    check_packed(tf.saved_model.load(packed_path), expected, inputs)
    check_tokenizer(encoder, path)
    check_keras_3(path, expected, inputs)
    check_saved_again(path, pathlib.Path(new_folder), expected, inputs)
    assert "albert_tf" not in sys.modules


if __name__ == "__main__":
    main(*sys.argv[1:])
