"""Trains exports that take strings in `hub.KerasLayer`, in a fresh process.

Needs TF_USE_LEGACY_KERAS=1, as tensorflow-hub is a library for tf_keras.

Usage: strings_in_keras_layer.py TEXT_ENCODER TASK_OF_PAIRS
"""

import sys

import numpy as np
import tensorflow as tf
import tensorflow_hub as hub
import tensorflow_text  # noqa: F401

assert "tf_keras" in tf.keras.Model.__module__, "set TF_USE_LEGACY_KERAS=1"
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 2,
)
TEXTS = tf.constant(["the good movie", "a bad film was it", "", "not seen"])
LABELS = np.array([1, 0, 0, 1])


def moved(layer, model, inputs):
    """Returns how many weights of a layer a step of training changes."""
    before = [weight.numpy() for weight in layer.weights]
    model.fit(inputs, LABELS, batch_size=4, verbose=0)
    return sum(
        bool(np.any(weight.numpy() != value))
        for weight, value in zip(layer.weights, before, strict=True)
    )


def embeddings(path, trainable):
    """A classifier of texts around a text encoder."""
    text = tf.keras.Input((), dtype=tf.string)
    layer = hub.KerasLayer(
        path, trainable=trainable, arguments={"seq_length": 9}
    )
    outputs = layer(text)
    assert outputs["mean_output"].shape[1:] == [16]
    logits = tf.keras.layers.Dense(2)(outputs["pooled_output"])
    model = tf.keras.Model(text, logits)
    model.compile(
        tf.keras.optimizers.Adam(1e-3),
        tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return layer, model


def check_text_encoder(path):
    layer, model = embeddings(path, trainable=False)
    assert len(model.trainable_weights) == 2
    assert moved(layer, model, TEXTS) == 0
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        layer, model = embeddings(path, trainable=True)
    assert len(layer.trainable_weights) == len(layer.weights) == 25
    assert moved(layer, model, TEXTS) == 25

    @tf.function(autograph=False)
    def train():
        return strategy.run(lambda: layer(TEXTS, training=True)["mean_output"])

    # Replicas drop different things of the same input.
    first, second = strategy.experimental_local_results(train())
    assert np.max(np.abs(first - second)) > 1e-3


def check_task(path):
    """Goes on training a fine-tuned model."""
    pair = {
        name: tf.keras.Input((), dtype=tf.string, name=name)
        for name in ("text", "text_pair")
    }
    layer = hub.KerasLayer(path, trainable=True)
    model = tf.keras.Model(pair, layer(pair)["logits"])
    model.compile(
        tf.keras.optimizers.Adam(1e-3),
        tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    inputs = {"text": TEXTS, "text_pair": TEXTS[::-1]}
    before = layer(inputs)
    assert before["label"].dtype == tf.string
    assert moved(layer, model, inputs) == len(layer.weights) == 27
    after = layer([inputs["text"], inputs["text_pair"]])
    assert np.any(after["logits"] != before["logits"])


def main(text_encoder, task):
    check_text_encoder(text_encoder)
    check_task(task)
    assert "albert_tf" not in sys.modules


if __name__ == "__main__":
    main(*sys.argv[1:])
