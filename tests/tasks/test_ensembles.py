import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.metrics.classification import classification_metrics
from albert_tf.tasks.ensembles import (
    average_probabilities,
    average_values,
    average_word_probabilities,
    ensemble_gains,
)


def test_probabilities_are_averaged_not_logits():
    members = {
        "a": [[0.999, 0.001], [0.6, 0.4]],
        "b": [[0.45, 0.55], [0.3, 0.7]],
        "c": np.float32([[0.1, 0.9], [0.2, 0.8]]),
    }
    averaged = average_probabilities(members)
    assert averaged == pytest.approx(np.array([[1.549, 1.451], [1.1, 1.9]]) / 3)


def test_one_model_is_itself():
    probabilities = np.array([[0.25, 0.75]])
    assert (average_probabilities({"a": probabilities}) == probabilities).all()


def test_numbers_are_averaged():
    averaged = average_values({"a": [1.0, 5.0], "b": [2.0, -1.0]})
    assert averaged == pytest.approx([1.5, 2])


def test_labels_of_words_are_averaged():
    first = [np.array([[1.0, 0.0], [0.2, 0.8]]), np.array([[0.5, 0.5]])]
    second = [np.array([[0.0, 1.0], [0.4, 0.6]]), np.array([[0.1, 0.9]])]
    averaged = average_word_probabilities({"a": first, "b": second})
    assert averaged[0] == pytest.approx(np.array([[0.5, 0.5], [0.3, 0.7]]))
    assert averaged[1] == pytest.approx(np.array([[0.3, 0.7]]))
    nothing = [np.zeros([0])]  # a sentence without words
    averaged = average_word_probabilities({"a": nothing, "b": nothing})
    assert [len(x) for x in averaged] == [0]


def test_gains_are_over_the_best_and_the_mean():
    labels = np.array([0, 1, 1, 0])
    members = {
        "a": np.eye(2)[[1, 1, 1, 0]] * 0.6 + 0.2,
        "b": np.eye(2)[[0, 0, 1, 0]] * 0.6 + 0.2,
        "c": np.eye(2)[[0, 1, 0, 1]] * 0.6 + 0.2,
    }

    def scores(probabilities):
        predictions = probabilities.argmax(axis=-1)
        return classification_metrics(["accuracy"], predictions, labels)

    [gain] = ensemble_gains(
        {name: scores(x) for name, x in members.items()},
        scores(average_probabilities(members)),
    )
    assert gain.metric == "accuracy"
    assert gain.members == {"a": 0.75, "b": 0.75, "c": 0.5}
    assert gain.ensemble == 1
    assert gain.over_best == pytest.approx(0.25)
    assert gain.over_mean == pytest.approx(1 / 3)
    assert str(gain) == (
        "accuracy 1.0000: +0.2500 against the best and +0.3333 against the "
        "mean of its 3 members (0.7500, 0.7500, 0.5000)"
    )


@pytest.mark.parametrize(
    ("average", "members", "message"),
    [
        (average_values, {}, "no model named"),
        (average_word_probabilities, {}, "no model named"),
        (
            average_values,
            {"a": [1.0], "b": [1.0], "c": [1.0, 2.0]},
            r"shapes of predictions differ: \(1,\) of model a, \(2,\) of c",
        ),
        (
            average_probabilities,
            {"a": [[0.5, 0.5]], "b": [[0.2, 0.3, 0.5]]},
            "must be of one task",
        ),
        (
            average_probabilities,
            {"a": [[0.5, 0.5]], "b": [[1.5, -0.5]]},
            "model b: its predictions are no probabilities",
        ),
        (
            average_probabilities,
            {"a": [[2.0, 1.0]]},
            "model a: .*; apply softmax to logits",
        ),
        (
            average_probabilities,
            {"a": [[np.nan, 0.5]]},
            "model a: its predictions are no probabilities",
        ),
        (
            average_word_probabilities,
            {"a": [[[1.0]]], "b": [[[1.0]], [[1.0]]]},
            "sentences of predictions differ: 1 of model a, 2 of b",
        ),
    ],
)
def test_models_that_do_not_fit_are_named(average, members, message):
    with pytest.raises(InputError, match=message):
        average(members)
