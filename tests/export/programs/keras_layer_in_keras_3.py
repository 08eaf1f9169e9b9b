"""What happens to `hub.KerasLayer` in Keras 3, for which it was not made.

If one of these checks fails, tensorflow-hub has changed, and docs/exports.md is
to follow.

Usage: keras_layer_in_keras_3.py ENCODER
"""

import sys

import keras
import numpy as np
import tensorflow as tf
import tensorflow_hub as hub

INPUTS = ("input_word_ids", "input_mask", "input_type_ids")


class Classifier(keras.Model):
    def __init__(self, path):
        super().__init__()
        self.encoder = hub.KerasLayer(path, trainable=True)
        self.head = keras.layers.Dense(1)

    def call(self, inputs, training=False):
        outputs = self.encoder(inputs, training=training)
        return self.head(outputs["pooled_output"])


def main(path):
    assert keras.__version__.startswith("3.")
    symbols = {
        name: keras.Input((None,), dtype="int32", name=name) for name in INPUTS
    }
    refused = ""
    try:
        hub.KerasLayer(path, trainable=True)(symbols)
    except (TypeError, ValueError) as error:
        refused = str(error)
    assert "KerasTensor" in refused, refused

    # No error, and no training of the encoder either.
    model = Classifier(path)
    batch = dict.fromkeys(INPUTS, tf.ones([4, 6], tf.int32))
    model(batch)
    assert len(model.trainable_weights) == 2
    before = [weight.numpy() for weight in model.encoder.weights]
    assert len(before) == 25
    model.compile("adam", "mse")
    model.fit(batch, np.arange(4.0), verbose=0)
    for weight, value in zip(model.encoder.weights, before, strict=True):
        np.testing.assert_array_equal(weight.numpy(), value)
    assert "albert_tf" not in sys.modules


if __name__ == "__main__":
    main(*sys.argv[1:])
