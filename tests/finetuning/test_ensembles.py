import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning import predictor, scoring
from albert_tf.finetuning.question_answering.answers import (
    QuestionScores,
    combine_scores,
)
from albert_tf.finetuning.registry import known_task, make_task_type


def average(task, members):
    return make_task_type(known_task(task)).average(members)


def test_probabilities_are_averaged_not_logits():
    members = {
        "a": [np.array([0.999, 0.001]), np.array([0.6, 0.4])],
        "b": [np.array([0.45, 0.55]), np.array([0.3, 0.7])],
        "c": [np.float32([0.1, 0.9]), np.float32([0.2, 0.8])],
    }
    averaged = np.array(average("sst2", members))
    assert averaged == pytest.approx(np.array([[1.549, 1.451], [1.1, 1.9]]) / 3)
    [same] = average("sst2", {"a": [np.array([0.25, 0.75])]})
    assert same.tolist() == [0.25, 0.75]


def test_numbers_are_averaged():
    averaged = average("stsb", {"a": [1.0, 5.0], "b": [2.0, -1.0]})
    assert averaged == pytest.approx([1.5, 2])


def test_labels_of_words_are_averaged():
    nothing = np.zeros([0, 2])  # a sentence without words
    first = [np.array([[1.0, 0.0], [0.2, 0.8]]), np.array([[0.5, 0.5]])]
    second = [np.array([[0.0, 1.0], [0.4, 0.6]]), np.array([[0.1, 0.9]])]
    averaged = average("ner", {"a": [*first, nothing], "b": [*second, nothing]})
    assert averaged[0] == pytest.approx(np.array([[0.5, 0.5], [0.3, 0.7]]))
    assert averaged[1] == pytest.approx(np.array([[0.3, 0.7]]))
    assert averaged[2].shape == (0, 2)


def test_ensembles_need_equal_heads_and_windows():
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


def test_gains_over_the_best_and_the_mean():
    gain = scoring._ensemble_gain("my_loss", 1.0, [2.0, 4.0])
    assert "-1.0000 against the best and -2.0000 against the mean" in gain
    gain = scoring._ensemble_gain("rmse", 1.0, [2.0, 4.0], ("rmse",))
    assert "-1.0000 against the best" in gain
    gain = scoring._ensemble_gain("accuracy", 1.0, [0.75, 0.75, 0.5])
    assert gain == (
        "accuracy 1.0000: +0.2500 against the best and +0.3333 against the "
        "mean of its 3 members (0.7500, 0.7500, 0.5000)"
    )


def test_a_threshold_that_was_not_tuned_counts_as_its_default():
    task = known_task("squad2.0")
    members = [
        make_task_type(task.with_settings({"null_threshold": x}))
        for x in (-1.5, None)
    ]
    for order in (members, members[::-1]):
        averaged = predictor._ensemble_config(order)
        assert averaged.settings["null_threshold"] == -0.75
    one = known_task("squad1.1")
    averaged = predictor._ensemble_config([make_task_type(one)] * 2)
    assert averaged.settings == one.settings
