"""An exported classifier of pairs of texts."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.exporting.config import ExportConfig
from albert_tf.exporting.export import export
from albert_tf.exporting.hub_layer import HubLayer

PAIR = {
    "text": tf.constant(["the good movie", "a bad film was it", "", "seen"]),
    "text_pair": tf.constant(["bad", "", "a movie", "I have seen it"]),
}


@pytest.fixture(scope="module")
def path(exports):
    return exports["task"][1]


@pytest.mark.long
def test_trains_in_keras_layer(run_program, path, exports):
    run_program(
        "strings_in_keras_layer.py",
        exports["text_encoder"][1],
        path,
        TF_USE_LEGACY_KERAS="1",
    )


@pytest.mark.long
def test_trains_in_keras_3(path, changed):
    layer = HubLayer(path)
    inputs = {name: keras.Input((), dtype="string", name=name) for name in PAIR}
    model = keras.Model(inputs, layer(inputs)["logits"])
    assert len(model.trainable_weights) == 27
    model.compile(
        "adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    labels = np.array([0, 1, 1, 0])
    assert all(changed(layer, lambda: model.fit(PAIR, labels, verbose=0)))


def test_an_existing_folder_is_kept(exports):
    source, path = exports["task"]
    before = sorted(path.iterdir())
    with pytest.raises(InputError, match="exists"):
        export(ExportConfig(model=source, output=path, kind="task"))
    assert sorted(path.iterdir()) == before
