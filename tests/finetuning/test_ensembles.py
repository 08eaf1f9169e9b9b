import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.ensembles import (
    average_probabilities,
    average_values,
)
from albert_tf.finetuning.evaluate import EnsembleGain
from albert_tf.finetuning.question_answering.answers import (
    QuestionScores,
    combine_scores,
)
from albert_tf.finetuning.registry import known_task, make_task_type


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
    average = make_task_type(known_task("ner")).average
    averaged = average({"a": first, "b": second})
    assert averaged[0] == pytest.approx(np.array([[0.5, 0.5], [0.3, 0.7]]))
    assert averaged[1] == pytest.approx(np.array([[0.3, 0.7]]))
    nothing = [np.zeros([0])]  # a sentence without words
    averaged = average({"a": nothing, "b": nothing})
    assert [len(x) for x in averaged] == [0]


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (
            [],
            "numbers of sentences of predictions differ: 1 of model",
        ),
        ([[[0.5, 0.5]] * 2], r"shapes .* differ: \(1, 2\) of model a"),
        ([[[2.0, 1.0]]], "model b: its predictions are no probabilities"),
    ],
)
def test_labels_of_words_that_do_not_fit(second, message):
    average = make_task_type(known_task("ner")).average
    with pytest.raises(InputError, match=message):
        average({"a": [[[0.5, 0.5]]], "b": second})


def test_heads_and_windows_that_do_not_fit():
    """Only models of one head can answer questions together."""

    def scores(head, windows=()):
        rows = dict.fromkeys(head, np.zeros(1))
        return [
            QuestionScores(
                id="q", context="c", windows=windows, members=[[rows]]
            )
        ]

    members = {"a": scores(["start"]), "b": scores(["start", "null"])}
    with pytest.raises(InputError, match="a and b have different heads"):
        combine_scores(members)
    members["b"] = scores(["start"], windows=[None])
    with pytest.raises(InputError, match="cut question q into different wind"):
        combine_scores(members)


def test_gains_are_over_the_best_and_the_mean():
    members = {"a": 0.75, "b": 0.75, "c": 0.5}
    gain = EnsembleGain(metric="accuracy", members=members, ensemble=1.0)
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
    ],
)
def test_models_that_do_not_fit_are_named(average, members, message):
    with pytest.raises(InputError, match=message):
        average(members)
