"""The movie reviews of the TF-Hub tutorial on ALBERT, in a fresh process.

Needs TF_USE_LEGACY_KERAS=1, as tensorflow-hub is a library for tf_keras.

Usage: movie_reviews.py PREPROCESSOR ENCODER
"""

import os
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


def reviews():
    """Returns a training set that looking for two words separates."""
    rng = np.random.default_rng(0)
    filler = "the movie plot was a film I have seen".split()
    texts, labels = [], []
    for i in range(64):
        words = [*rng.choice(filler, 3), *[("bad", "good")[i % 2]] * 3]
        texts.append(" ".join(rng.permutation(words)))
        labels.append(i % 2)
    return tf.data.Dataset.from_tensor_slices((texts, labels))


def build(preprocessor, encoder):
    """The tutorial's model; only the two URLs differ."""
    text_input = tf.keras.layers.Input(shape=(), dtype=tf.string)
    encoder_inputs = preprocessor(text_input)
    outputs = encoder(encoder_inputs)
    pooled_output = outputs["pooled_output"]
    embedding_model = tf.keras.Model(text_input, pooled_output)

    model = tf.keras.Sequential()
    model.add(embedding_model)
    model.add(tf.keras.layers.Dense(128, activation="relu"))
    model.add(tf.keras.layers.BatchNormalization())
    model.add(tf.keras.layers.Dense(30, activation="relu"))
    model.add(tf.keras.layers.BatchNormalization())
    model.add(tf.keras.layers.Dense(8, activation="relu"))
    model.add(tf.keras.layers.BatchNormalization())
    model.add(tf.keras.layers.Dense(1))
    model.compile(
        optimizer="adam",
        loss=tf.keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def moved(layer, before):
    return [
        bool(np.any(weight.numpy() != value))
        for weight, value in zip(layer.weights, before, strict=True)
    ]


def check_tutorial(preprocessor_url, albert_url, train_data):
    tf.keras.utils.set_random_seed(0)
    encoder = hub.KerasLayer(albert_url, trainable=True)
    preprocessor = hub.KerasLayer(preprocessor_url)
    model = build(preprocessor, encoder)
    assert len(encoder.weights) == 25
    assert len(model.trainable_weights) == 14 + 25

    before = [weight.numpy() for weight in encoder.weights]
    history = model.fit(
        train_data.shuffle(10000).batch(16),
        epochs=10,
        validation_data=train_data.batch(128),
        verbose=0,
    )
    assert all(moved(encoder, before))
    loss = history.history["loss"]
    assert loss[-1] < 0.8 * loss[0], loss
    return model


def check_mlm_layer(albert_url):
    """The tutorial on TF-Hub's text contract calls sub-objects like this."""
    encoder = hub.load(albert_url)
    mlm = hub.KerasLayer(encoder.mlm, trainable=True)
    assert len(mlm.trainable_weights) == 30
    inputs = {
        name: tf.keras.layers.Input(shape=(None,), dtype=tf.int32)
        for name in (
            "input_word_ids",
            "input_mask",
            "input_type_ids",
            "masked_lm_positions",
        )
    }
    assert mlm(inputs)["mlm_logits"].shape.as_list() == [None, None, 90]


def check_packing_layer(preprocessor_url, albert_url):
    preprocessor = hub.load(preprocessor_url)
    tokenize = hub.KerasLayer(preprocessor.tokenize)
    pack = hub.KerasLayer(
        preprocessor.bert_pack_inputs, arguments={"seq_length": 10}
    )
    segments = [
        tf.keras.layers.Input(shape=(), dtype=tf.string) for _ in range(2)
    ]
    packed = pack([tokenize(segment) for segment in segments])
    assert packed["input_mask"].shape.as_list() == [None, 10]
    outputs = hub.KerasLayer(albert_url)(packed)
    assert outputs["sequence_output"].shape.as_list() == [None, 10, 16]
    assert outputs["pooled_output"].shape.as_list() == [None, 16]


def check_mirrored(preprocessor_url, albert_url, train_data):
    preprocessor = hub.load(preprocessor_url)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    assert strategy.num_replicas_in_sync == 2

    def preprocess(texts, labels):
        return preprocessor(texts, seq_length=12), labels

    data = train_data.batch(16, drop_remainder=True).map(preprocess)
    with strategy.scope():
        encoder = hub.KerasLayer(albert_url, trainable=True)
        inputs = {
            name: tf.keras.layers.Input(shape=(12,), dtype=tf.int32)
            for name in data.element_spec[0]
        }
        logits = tf.keras.layers.Dense(1)(encoder(inputs)["pooled_output"])
        model = tf.keras.Model(inputs, logits)
        model.compile(
            tf.keras.optimizers.Adam(3e-3),
            tf.keras.losses.BinaryCrossentropy(from_logits=True),
        )
    before = [weight.numpy() for weight in encoder.weights]
    loss = model.fit(data, epochs=4, verbose=0).history["loss"]
    assert loss[-1] < loss[0], loss
    assert all(moved(encoder, before))
    for weight in encoder.weights:
        first, second = strategy.experimental_local_results(weight)
        np.testing.assert_array_equal(first, second)

    # Replicas drop different things of the same input.
    batch = next(iter(data))[0]

    def pooled_output(batch):
        return encoder(batch, training=True)["pooled_output"]

    @tf.function(autograph=False)
    def train(batch):
        return strategy.run(pooled_output, (batch,))

    first, second = strategy.experimental_local_results(train(batch))
    assert np.max(np.abs(first - second)) > 1e-3


def check_weights_file(model, folder):
    """HDF5 stores weights by name, so names must be unique."""
    path = os.path.join(folder, "model.weights.h5")
    model.save_weights(path, save_format="h5")
    values = [weight.numpy() for weight in model.weights]
    for weight in model.weights:
        weight.assign(tf.zeros_like(weight))
    model.load_weights(path)
    for weight, value in zip(model.weights, values, strict=True):
        np.testing.assert_array_equal(weight, value)


def main(preprocessor_url, albert_url, new_folder):
    data = reviews()
    model = check_tutorial(preprocessor_url, albert_url, data)
    check_weights_file(model, new_folder)
    check_mlm_layer(albert_url)
    check_packing_layer(preprocessor_url, albert_url)
    check_mirrored(preprocessor_url, albert_url, data)
    assert "albert_tf" not in sys.modules


if __name__ == "__main__":
    main(*sys.argv[1:])
