"""Outputs do not depend on batches, replicas and lengths."""

import keras
import numpy as np
import pytest

from albert_tf.finetuning.predictor import BatchPredictor
from albert_tf.finetuning.token_classification.model import (
    AlbertTokenClassifier,
)
from albert_tf.training.distribution import make_strategy


@pytest.fixture(scope="module")
def features(features_of):
    rng = np.random.default_rng(0)
    lengths = (3, 9, 4, 4, 7, 1, 5)
    return features_of([rng.integers(5, 30, length) for length in lengths])


def outputs(config, features, strategy, packed=True, **settings):
    keras.utils.set_random_seed(0)
    with strategy.scope():
        model = AlbertTokenClassifier(config, 3, packed=packed)

    def forward(model, batch):
        logits = model(batch)
        return {"logits": logits, "first": logits[:, 0]}

    predictor = BatchPredictor(strategy, model, forward, **settings)
    # Twice, like repeated evaluations in a run.
    predictor(features)
    return [
        {**found, "logits": found["logits"][:length]}
        for found, length in zip(
            predictor(features), features.lengths, strict=True
        )
    ]


@pytest.fixture(scope="module")
def expected(config, features):
    return outputs(config, features, make_strategy("one_device"), batch_size=7)


@pytest.mark.parametrize(
    "settings",
    [
        {"batch_size": 2},
        {"batch_size": 4, "replicas": 2},
        {"batch_size": 3, "fixed_length": 12, "packed": False},
        {"batch_size": 3, "fixed_length": 12, "packed": False, "replicas": 2},
    ],
)
def test_outputs_equal_those_of_one_batch(config, settings, features, expected):
    settings = dict(settings)
    strategy = make_strategy("one_device")
    if settings.pop("replicas", 1) == 2:
        strategy = make_strategy("mirrored", devices=["CPU:0", "CPU:1"])
    found = outputs(config, features, strategy, **settings)
    assert [len(x["logits"]) for x in found] == [3, 9, 4, 4, 7, 1, 5]
    for ours, theirs in zip(expected, found, strict=True):
        for name in ("logits", "first"):
            np.testing.assert_allclose(ours[name], theirs[name], atol=1e-5)
        np.testing.assert_allclose(ours["first"], ours["logits"][0], atol=1e-6)
