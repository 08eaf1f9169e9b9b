"""Saves tf_keras models around `hub.KerasLayer`, or loads and checks them.

Two processes, so that nothing is left over from the first in the second. Needs
TF_USE_LEGACY_KERAS=1, as tensorflow-hub is a library for tf_keras.

Usage: keras_layer_saving.py save PREPROCESSOR ENCODER FOLDER
       keras_layer_saving.py load FOLDER
       keras_layer_saving.py load_saved_model FOLDER
"""

import pathlib
import sys

import numpy as np
import tensorflow as tf
import tensorflow_hub as hub
import tensorflow_text  # noqa: F401

assert "tf_keras" in tf.keras.Model.__module__, "set TF_USE_LEGACY_KERAS=1"
TEXTS = tf.constant(["the good movie", "a bad film was it", "", "not seen"])
LABELS = np.array([1.0, 0.0, 0.0, 1.0])
# What a file has of a hub.KerasLayer is where the export is: it must be there.
FILES = ("model.keras", "model.h5")
SAVED_MODEL = "saved_model"


def frozen_and_trained(layers):
    return [
        layer
        for layer in layers
        if layer.name in ("frozen_encoder", "trained_encoder")
    ]


def check_parts(preprocessor_url, albert_url):
    """Layers of parts of a SavedModel, as tutorials use them."""
    mlm = hub.KerasLayer(hub.load(albert_url).mlm, trainable=True)
    assert len(mlm.trainable_weights) == 30
    inputs = {
        name: tf.keras.layers.Input((None,), dtype=tf.int32)
        for name in (
            "input_word_ids",
            "input_mask",
            "input_type_ids",
            "masked_lm_positions",
        )
    }
    assert mlm(inputs)["mlm_logits"].shape.as_list() == [None, None, 90]
    preprocessor = hub.load(preprocessor_url)
    tokenize = hub.KerasLayer(preprocessor.tokenize)
    pack = hub.KerasLayer(
        preprocessor.bert_pack_inputs, arguments={"seq_length": 10}
    )
    segments = [tf.keras.layers.Input((), dtype=tf.string) for _ in range(2)]
    outputs = hub.KerasLayer(albert_url)(pack(list(map(tokenize, segments))))
    assert outputs["sequence_output"].shape.as_list() == [None, 10, 16]


def save(preprocessor_url, albert_url, folder):
    """One model with a frozen and a trained encoder, after a step."""
    check_parts(preprocessor_url, albert_url)
    text_input = tf.keras.layers.Input(shape=(), dtype=tf.string)
    encoder_inputs = hub.KerasLayer(preprocessor_url)(text_input)
    pooled = [
        hub.KerasLayer(albert_url, name="frozen_encoder"),
        hub.KerasLayer(albert_url, name="trained_encoder", trainable=True),
    ]
    outputs = [layer(encoder_inputs)["pooled_output"] for layer in pooled]
    joined = tf.keras.layers.Concatenate()(outputs)
    model = tf.keras.Model(text_input, tf.keras.layers.Dense(1)(joined))
    model.compile(tf.keras.optimizers.Adam(0.01), "mse")
    model.fit(TEXTS, LABELS, verbose=0)
    for name in (*FILES, SAVED_MODEL):
        model.save(folder / name)
    np.save(folder / "outputs.npy", model(TEXTS))


def check(model, folder):
    expected = np.load(folder / "outputs.npy")
    # The same operations on the same weights, in another order of fusion.
    np.testing.assert_allclose(model(TEXTS), expected, rtol=0, atol=1e-6)
    frozen, trained = sorted(
        frozen_and_trained(model.layers), key=lambda layer: layer.name
    )
    assert not frozen.trainable_weights
    assert len(frozen.non_trainable_weights) == 25
    assert len(trained.trainable_weights) == 25
    assert len(model.trainable_weights) == 25 + 2

    # Training goes on: with dropout, and in the trained encoder alone.
    before = [weight.numpy() for weight in model.weights]
    trained_weights = {id(weight) for weight in model.trainable_weights}
    first = model(TEXTS, training=True)
    assert np.max(np.abs(model(TEXTS, training=True) - first)) > 1e-3
    model.fit(TEXTS, LABELS, verbose=0)
    for weight, value in zip(model.weights, before, strict=True):
        moved = bool(np.any(weight.numpy() != value))
        assert moved == (id(weight) in trained_weights), weight.name


def load_files(folder):
    for name in FILES:
        model = tf.keras.models.load_model(
            folder / name, custom_objects={"KerasLayer": hub.KerasLayer}
        )
        check(model, folder)


def load_saved_model(folder):
    """A SavedModel holds all: the exports may be gone."""
    check(tf.keras.models.load_model(folder / SAVED_MODEL), folder)
    served = tf.saved_model.load(folder / SAVED_MODEL)
    (outputs,) = served.signatures["serving_default"](TEXTS).values()
    expected = np.load(folder / "outputs.npy")
    np.testing.assert_allclose(outputs, expected, rtol=0, atol=1e-6)


def main(command, *arguments):
    *urls, folder = arguments
    folder = pathlib.Path(folder)
    if command == "save":
        save(*urls, folder)
    elif command == "load":
        load_files(folder)
    else:
        load_saved_model(folder)
    assert "albert_tf" not in sys.modules


if __name__ == "__main__":
    main(*sys.argv[1:])
