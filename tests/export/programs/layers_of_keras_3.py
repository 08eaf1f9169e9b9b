"""Keras 3 models around an export, by Keras's own TFSMLayer or our HubLayer.

With "tfsm" the process has no albert_tf. "save" and "load" are two processes,
so that nothing is left over from the first in the second.

Usage: layers_of_keras_3.py tfsm|hub save PREPROCESSOR ENCODER FOLDER
       layers_of_keras_3.py tfsm|hub load FOLDER
"""

import pathlib
import sys

import keras
import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401

# Before anything else of TensorFlow: two devices for two replicas.
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 2,
)
INPUTS = ("input_word_ids", "input_mask", "input_type_ids")
TEXTS = tf.constant(["the good movie", "a bad film was it", "", "not seen"])
LABELS = np.array([1.0, 0.0, 0.0, 1.0])
ENCODER_WEIGHTS = 25
HEAD_WEIGHTS = 2


def tfsm_layer(path, trains=False):
    """Keras's layer around an encoder (which trains) or a preprocessor."""
    layer = keras.layers.TFSMLayer(
        path,
        call_endpoint="__call__",
        call_training_endpoint="call_training" if trains else None,
    )
    layer.trainable = trains
    return layer


def hub_layer(path, trains=False):
    from albert_tf import HubLayer

    return HubLayer(path, trainable=trains)


LAYERS = {"tfsm": tfsm_layer, "hub": hub_layer}


class Classifier(keras.Model):
    """A model of a user."""

    def __init__(self, preprocessor, encoder):
        super().__init__()
        self.preprocessor, self.encoder = preprocessor, encoder
        self.head = keras.layers.Dense(1)

    def call(self, texts, training=False):
        inputs = self.preprocessor(texts)
        outputs = self.encoder(inputs, training=training)
        return self.head(outputs["pooled_output"])


def functional(preprocessor, encoder):
    text_input = keras.Input((), dtype="string")
    pooled = encoder(preprocessor(text_input))["pooled_output"]
    return keras.Model(text_input, keras.layers.Dense(1)(pooled))


def compile_and_fit(model, inputs, labels):
    model.compile(keras.optimizers.Adam(0.01), "mse")
    model(inputs)
    # TFSMLayer puts a colon into the names of weights, which is an error in an
    # optimizer that is built in a graph.
    model.optimizer.build(model.trainable_variables)
    return model.fit(inputs, labels, verbose=0)


def values(layer):
    return [weight.numpy() for weight in layer.weights]


def moved(layer, before):
    """Returns for each weight of a layer whether it has another value."""
    return [
        bool(np.any(weight.numpy() != value))
        for weight, value in zip(layer.weights, before, strict=True)
    ]


def check_styles(make, preprocessor_path, encoder_path):
    for style, build in (("functional", functional), ("own", Classifier)):
        encoder = make(encoder_path, trains=True)
        model = build(make(preprocessor_path), encoder)
        model(TEXTS)
        count = ENCODER_WEIGHTS + HEAD_WEIGHTS
        assert len(model.trainable_weights) == count, style
        found = {id(weight) for weight in model.trainable_weights}
        assert {id(weight) for weight in encoder.weights} <= found, style
        check_dropout(model, style)
        before = values(encoder)
        compile_and_fit(model, TEXTS, LABELS)
        assert all(moved(encoder, before)), style

        encoder.trainable = False
        assert len(model.trainable_weights) == HEAD_WEIGHTS, style
        if make is tfsm_layer:  # It applies dropout even if it is frozen.
            check_dropout(model, style)
    before = values(encoder)
    compile_and_fit(model, TEXTS, LABELS)
    assert not any(moved(encoder, before))


def check_dropout(model, style):
    def spread(**arguments):
        draws = [model(TEXTS, **arguments) for _ in range(3)]
        return float(np.max(np.std(draws, axis=0)))

    assert spread() < 1e-6, style
    assert spread(training=False) < 1e-6, style
    assert spread(training=True) > 1e-3, style


def check_mirrored(make, preprocessor_path, encoder_path):
    """Two replicas; the preprocessor is in the input pipeline."""
    # Outside the scope, as it is not trained.
    preprocessor = tf.saved_model.load(preprocessor_path)
    batch = preprocessor(TEXTS)
    data = tf.data.Dataset.from_tensors((batch, LABELS)).repeat(2)
    data = data.unbatch().batch(4, drop_remainder=True)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    assert strategy.num_replicas_in_sync == 2
    with strategy.scope():
        encoder = make(encoder_path, trains=True)
        symbols = {
            name: keras.Input((20,), dtype="int32", name=name)
            for name in INPUTS
        }
        pooled = encoder(symbols)["pooled_output"]
        model = keras.Model(symbols, keras.layers.Dense(1)(pooled))
        model.compile(keras.optimizers.Adam(0.01), "mse")
        model.optimizer.build(model.trainable_variables)
    assert len(model.trainable_weights) == ENCODER_WEIGHTS + HEAD_WEIGHTS
    before = values(encoder)
    model.fit(data, verbose=0)
    assert all(moved(encoder, before))
    for weight in encoder.weights:
        copies = strategy.experimental_local_results(weight.value)
        np.testing.assert_array_equal(*copies)


def save(make, preprocessor_path, encoder_path, folder):
    check_styles(make, preprocessor_path, encoder_path)
    check_mirrored(make, preprocessor_path, encoder_path)
    model = functional(make(preprocessor_path), make(encoder_path, trains=True))
    compile_and_fit(model, TEXTS, LABELS)
    model.save(folder / "model.keras")
    np.save(folder / "outputs.npy", model(TEXTS))


def load(folder):
    path = folder / "model.keras"
    refusal = ""
    try:
        keras.models.load_model(path)
    except ValueError as error:
        refusal = str(error)
    assert "safe_mode=False" in refusal
    model = keras.models.load_model(path, safe_mode=False)
    expected = np.load(folder / "outputs.npy")
    # The same operations on the same weights.
    np.testing.assert_allclose(model(TEXTS), expected, rtol=0, atol=1e-6)
    count = ENCODER_WEIGHTS + HEAD_WEIGHTS
    assert len(model.trainable_weights) == count
    check_dropout(model, "reloaded")
    before = values(model)
    model.fit(TEXTS, LABELS, verbose=0)
    assert all(moved(model, before))


def main(kind, command, *arguments):
    assert keras.__version__.startswith("3.")
    *paths, folder = arguments
    folder = pathlib.Path(folder)
    if kind == "hub":
        import albert_tf

        assert albert_tf.HubLayer
    if command == "save":
        save(LAYERS[kind], *paths, folder)
    else:
        load(folder)
    assert kind == "hub" or "albert_tf" not in sys.modules


if __name__ == "__main__":
    main(*sys.argv[1:])
