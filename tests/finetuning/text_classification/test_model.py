import keras
import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.text_classification.model import AlbertClassifier


def test_own_weights_and_output(config, batch):
    model = AlbertClassifier(config, 3)
    assert model(batch).shape == (4, 3)
    extra = {v.path for v in model.trainable_variables} - {
        v.path for v in model.encoder.trainable_variables
    }
    assert extra == {"classifier_head/kernel", "classifier_head/bias"}


def test_equals_the_head_on_the_full_encoder(config, batch):
    model = AlbertClassifier(config, 3)
    pooled = np.asarray(model.encoder(batch)["pooled_output"])
    head = model.classifier_head
    expected = pooled @ np.asarray(head.kernel) + np.asarray(head.bias)
    np.testing.assert_allclose(model(batch), expected, atol=1e-5)


def test_dropout_is_on_the_pooled_output(config, batch):
    # The config has none, so the head's is what differs.
    model = AlbertClassifier(config, 3, dropout=0.5)
    first, second = (np.asarray(model(batch, training=True)) for _ in "ab")
    assert np.abs(first - second).max() > 1e-3
    model = AlbertClassifier(config, 3, dropout=0.0)
    np.testing.assert_array_equal(model(batch, training=True), model(batch))


def test_fits_classes(config, batch):
    keras.utils.set_random_seed(0)
    model = AlbertClassifier(config.replace(initializer_range=0.1), 3)
    model.compile(
        keras.optimizers.Adam(1e-2),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    labels = np.array([0, 1, 2, 0])
    history = model.fit(batch, labels, epochs=15, verbose=0).history
    assert history["loss"][-1] < 0.5 * history["loss"][0]


def test_fits_a_number(config, batch):
    keras.utils.set_random_seed(0)
    model = AlbertClassifier(config.replace(initializer_range=0.1), 1)
    model.compile(keras.optimizers.Adam(1e-2), "mse")
    scores = np.array([0.0, 2.0, 5.0, 3.0])
    history = model.fit(batch, scores, epochs=15, verbose=0).history
    assert history["loss"][-1] < 0.5 * history["loss"][0]


def test_label_names_stay_with_the_model(config, round_trip):
    model = AlbertClassifier(config, 2, labels=["no", "yes"], dropout=0.2)
    loaded = round_trip(model)
    assert (loaded.labels, loaded.dropout.rate) == (("no", "yes"), 0.2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_labels": 0}, "num_labels=0 must be an integer of at least 1"),
        ({"num_labels": 2.0}, "num_labels=2.0 must be an integer"),
        ({"num_labels": True}, "num_labels=True must be an integer"),
        ({"num_labels": 2, "dropout": 1.0}, r"dropout=1.0 must be in \[0, 1\)"),
        ({"num_labels": 2, "dropout": "a"}, r"dropout='a' must be in \[0, 1\)"),
        ({"num_labels": 2, "labels": ["no"]}, "must be num_labels=2 strings"),
        ({"num_labels": 2, "labels": [0, 1]}, "must be num_labels=2 strings"),
        ({"num_labels": 2, "labels": "ab"}, "must be num_labels=2 strings"),
    ],
)
def test_bad_arguments(config, arguments, message):
    with pytest.raises(InputError, match=f"AlbertClassifier: .*{message}"):
        AlbertClassifier(config, **arguments)
