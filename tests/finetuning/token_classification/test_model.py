import keras
import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.token_classification.model import (
    AlbertTokenClassifier,
)


def test_own_weights_and_output(config, batch):
    model = AlbertTokenClassifier(config, 3)
    assert model(batch).shape == (4, 12, 3)
    paths = {v.path for v in model.trainable_variables}
    extra = paths - {v.path for v in model.encoder.trainable_variables}
    assert extra == {"token_head/kernel", "token_head/bias"}
    assert not any("pooler" in path for path in paths)


def test_equals_the_head_on_each_token(config, batch):
    model = AlbertTokenClassifier(config, 3)
    states = np.asarray(model.encoder(batch)["sequence_output"])
    head = model.token_head
    expected = states @ np.asarray(head.kernel) + np.asarray(head.bias)
    np.testing.assert_allclose(model(batch), expected, atol=1e-5)


def test_dropout_is_on_the_states(config, batch):
    model = AlbertTokenClassifier(config, 3, dropout=0.5)
    first, second = (np.asarray(model(batch, training=True)) for _ in "ab")
    assert np.abs(first - second).max() > 1e-3


def test_fits_with_weights_that_leave_padding_out(config, batch):
    keras.utils.set_random_seed(0)
    model = AlbertTokenClassifier(
        config.replace(initializer_range=0.1), 3, packed=True
    )
    model.compile(
        keras.optimizers.Adam(1e-2),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    tags = batch["input_word_ids"] % 3
    history = model.fit(
        batch,
        tags,
        sample_weight=batch["input_mask"].astype("float32"),
        epochs=30,
        verbose=0,
    ).history
    assert history["loss"][-1] < 0.5 * history["loss"][0]


def test_label_names_stay_with_the_model(config, round_trip):
    loaded = round_trip(AlbertTokenClassifier(config, 2, labels=("O", "B")))
    assert loaded.labels == ("O", "B")


def test_bad_arguments(config):
    with pytest.raises(
        InputError, match="AlbertTokenClassifier: num_labels=-1"
    ):
        AlbertTokenClassifier(config, -1)
    with pytest.raises(
        InputError, match=r"labels=\['O'\] must be num_labels=2"
    ):
        AlbertTokenClassifier(config, 2, labels=["O"])
    with pytest.raises(InputError, match="dropout=-0.1 must be"):
        AlbertTokenClassifier(config, 2, dropout=-0.1)
