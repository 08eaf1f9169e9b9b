import math

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.metrics import classification_metrics


def test_class_metrics_follow_their_definitions():
    labels = [1, 1, 1, 0, 0, 0, 0, 1]
    predictions = [1, 0, 1, 0, 1, 0, 0, 1]
    tp, fn, fp, tn = 3, 1, 1, 3
    scores = classification_metrics(
        ["matthews", "accuracy", "f1"], predictions, labels
    )
    assert list(scores) == ["matthews", "accuracy", "f1"]
    assert scores["accuracy"] == pytest.approx(6 / 8)
    assert scores["f1"] == pytest.approx(2 * tp / (2 * tp + fp + fn))
    assert scores["matthews"] == pytest.approx(
        (tp * tn - fp * fn)
        / math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    )
    assert all(type(score) is float for score in scores.values())


def test_class_1_is_the_positive_one():
    scores = classification_metrics(["f1"], [1, 1, 1, 0], [0, 1, 1, 1])
    assert scores["f1"] == pytest.approx(2 / 3)
    flipped = classification_metrics(["f1"], [0, 0, 0, 1], [1, 0, 0, 0])
    assert flipped["f1"] == 0


def test_more_than_two_classes():
    labels, predictions = [0, 1, 2, 2, 1, 0], [0, 2, 2, 2, 1, 1]
    scores = classification_metrics(
        ["accuracy", "matthews"], predictions, labels
    )
    assert scores["accuracy"] == pytest.approx(4 / 6)
    # R_K of Gorodkin (2004), from the counts of the classes.
    correct, count = 4, 6
    predicted, true = np.array([1, 2, 3]), np.array([2, 2, 2])
    assert scores["matthews"] == pytest.approx(
        (correct * count - predicted @ true)
        / math.sqrt(count**2 - predicted @ predicted)
        / math.sqrt(count**2 - true @ true)
    )
    with pytest.raises(InputError, match="there is a class 2; use accuracy"):
        classification_metrics(["f1"], predictions, labels)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("predictions", "labels", "f1", "matthews"),
    [
        ([0, 0, 0], [0, 0, 0], 0, 0),
        ([1, 1, 1], [1, 1, 1], 1, 0),
        ([1, 1, 1], [0, 0, 0], 0, 0),
        ([0, 0, 0], [0, 1, 1], 0, 0),
        ([0, 1, 1], [1, 1, 1], 0.8, 0),
        ([1], [1], 1, 0),
    ],
)
def test_constant_classes(predictions, labels, f1, matthews):
    assert classification_metrics(
        ["f1", "matthews"], predictions, labels
    ) == pytest.approx({"f1": f1, "matthews": matthews})


def test_correlations():
    labels = np.array([0.0, 1.0, 2.5, 4.0, 5.0])
    scores = classification_metrics(["pearson", "spearman"], 3 - labels, labels)
    assert scores == pytest.approx({"pearson": -1, "spearman": -1})
    scores = classification_metrics(
        ["pearson", "spearman"], labels**3, labels.tolist()
    )
    assert scores["spearman"] == pytest.approx(1)
    assert scores["pearson"] == pytest.approx(
        np.corrcoef(labels, labels**3)[0, 1]
    )
    # Equal values share the mean of their ranks: 1, 2.5, 2.5 and 4.
    scores = classification_metrics(["spearman"], [1, 2, 2, 3], [1, 2, 3, 4])
    assert scores["spearman"] == pytest.approx(
        np.corrcoef([1, 2.5, 2.5, 4], [1, 2, 3, 4])[0, 1]
    )


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("predictions", "labels"),
    [([1.5, 1.5], [1.0, 2.0]), ([1.0, 2.0], [3.0, 3.0]), ([1.0], [2.0])],
)
def test_correlations_of_constants_are_nan(predictions, labels):
    scores = classification_metrics(
        ["pearson", "spearman"], predictions, labels
    )
    assert np.isnan(list(scores.values())).all()


@pytest.mark.parametrize(
    ("names", "predictions", "labels", "message"),
    [
        (["mcc"], [1], [1], "metric 'mcc': must be one of accuracy, f1"),
        (["accuracy"], [1, 0], [1], r"predictions \[2\] and labels \[1\]"),
        (["accuracy"], [[1, 0]], [[1, 0]], "must be two lists"),
        (["accuracy"], [], [], "there are none"),
        (["accuracy"], [0.4], [1], r"0\.4\W* is not a class index"),
        (["f1"], ["1"], ["0"], "is not a class index"),
        (["pearson"], ["a", "b"], [1, 2], "is not a number"),
        (
            ["spearman"],
            [0.0, math.nan, 1.0],
            [1.0, 2.0, 3.0],
            r"predictions\[1\] is nan, and 1 of 3 are not finite",
        ),
        (["pearson"], [1.0, 2.0], [math.inf, 1.0], r"labels\[0\] is inf"),
    ],
)
def test_invalid_inputs(names, predictions, labels, message):
    with pytest.raises(InputError, match=message) as caught:
        classification_metrics(names, predictions, labels)
    assert "\n" not in str(caught.value)
