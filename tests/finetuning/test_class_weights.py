"""Weights of classes: as flags, by label, and balanced."""

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.class_weights import (
    class_weights_of,
    parse_class_weights,
)
from albert_tf.finetuning.config import FinetuneConfig

CLASSES = ("bad", "good", "so=so")
COUNTED = [0, 0, 0, 1, 1, 2]


def features(make, labels):
    return make([[2, 3]] * len(labels), labels=labels)


def words(make, labels):
    columns = {"labels": [[-1, *labels, -1]]}
    return make([[2, *labels, 3]], token_columns=columns, padding=-1)


@pytest.mark.parametrize(
    ("text", "weights"),
    [
        ("bad=2,so=so=0.5", (2, 1, 0.5)),
        ("good = 3, bad=2", (2, 3, 1)),
        ("2,1,0.5", (2, 1, 0.5)),
        ('{"good": 3}', (1, 3, 1)),
        ("[1, 1, 4]", (1, 1, 4)),
    ],
)
def test_weights_by_label_or_in_order(text, weights, features_of):
    given = parse_class_weights(text)
    FinetuneConfig(task="sst2", output="a", init_from="b", class_weights=given)
    assert (
        class_weights_of(given, CLASSES, features(features_of, COUNTED))
        == weights
    )


@pytest.mark.parametrize("make", [features, words])
def test_balanced_weights_are_those_of_scikit_learn(make, features_of):
    sklearn = pytest.importorskip("sklearn.utils")
    found = class_weights_of(
        parse_class_weights("balanced"), CLASSES, make(features_of, COUNTED)
    )
    expected = sklearn.compute_class_weight(
        "balanced", classes=np.arange(3), y=np.array(COUNTED)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"god": 2.0}, "'god' is not one of the labels bad, good, so=so"),
        ([1.0, 2.0], "2 weights for 3 labels"),
        ([1.0, 2.0, 0.0], "the weight 0.0 of 'so=so' must be in"),
        ({"bad": float("nan")}, "the weight nan of 'bad' must be in"),
        ("balanced", "no training example has the label 'so=so'"),
    ],
)
def test_weights_must_fit_the_labels(given, message, features_of):
    with pytest.raises(InputError, match=message):
        class_weights_of(given, CLASSES, features(features_of, COUNTED[:-1]))


@pytest.mark.parametrize("text", ["balance", "bad=x", "1,,2", "bad=1,2"])
def test_other_texts_are_errors(text):
    with pytest.raises(InputError, match="must be balanced, LABEL=WEIGHT"):
        parse_class_weights(text)
