"""Halves of development sets, and results beside baselines."""

import math

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.features import FeaturesBuilder
from albert_tf.finetuning.registry import known_task, make_task_type
from albert_tf.finetuning.results import (
    DevSet,
    FinetuneResult,
    Reference,
    RunsResult,
)
from albert_tf.finetuning.text_classification.examples import TextExample
from albert_tf.training.result import TrainingResult


def dev_set(count, selection="half"):
    rng = np.random.default_rng(3)
    examples = [
        TextExample(
            id=str(n), location="", text="a", label=str(rng.integers(2))
        )
        for n in range(count)
    ]
    features = FeaturesBuilder(pad_id=0).build()
    return DevSet(examples=examples, features=features, selection=selection)


@pytest.mark.parametrize("count", [2, 7, 100])
def test_halves_are_disjoint_and_always_the_same(count):
    dev = dev_set(count)
    selecting, held = dev._halves
    assert sorted([*selecting, *held]) == list(range(count))
    assert len(held) - len(selecting) in (0, 1)
    assert dev_set(count).scored == dev.scored
    if count == 100:
        assert held != list(range(50, 100))


def test_one_half_selects_and_the_other_is_scored():
    task_type = make_task_type(known_task("sst2"))
    dev = dev_set(40)
    dev.check(task_type)
    rng = np.random.default_rng(0)
    predictions = list(rng.dirichlet([1, 1], 40))
    logged = dev.evaluate(task_type, predictions)
    selecting, held = dev._halves
    for half, scores in (
        (selecting, {x: logged[x] for x in ("accuracy", "loss")}),
        (held, dev.reported(logged)),
    ):
        assert scores == task_type.scores(
            [dev.examples[i] for i in half], [predictions[i] for i in half]
        )
    whole = dev_set(40, "whole")
    logged = whole.evaluate(task_type, predictions)
    assert whole.reported(logged) == logged
    assert whole.scored == whole.examples
    # Undefined scores are null in logs.
    assert math.isnan(whole.reported({"pearson": None})["pearson"])


def test_a_half_needs_an_example():
    with pytest.raises(InputError, match="at least 2 development examples"):
        dev_set(1).check(make_task_type(known_task("sst2")))


REFERENCE = Reference(
    baselines={
        "most frequent label": {"accuracy": 0.6, "loss": 0.67},
        "bag of words": {"accuracy": 0.8},
    },
    num_examples=100,
    num_scored=100,  # A standard error of at most 0.05.
)


def result(score, loss=0.5):
    return FinetuneResult(
        training=None, step=8, scores={"accuracy": score, "loss": loss}
    )


@pytest.mark.parametrize(
    ("score", "learned"),
    [(0.66, True), (0.64, False), (0.5, False), (float("nan"), False)],
)
def test_a_run_that_learned_nothing_says_so(score, learned):
    runs = RunsResult(
        metric="accuracy", results={"": result(score)}, reference=REFERENCE
    )
    lines = runs.summary().splitlines()
    assert lines[1:3] == [
        "most frequent label: accuracy 0.6000, loss 0.6700",
        "bag of words: accuracy 0.8000",
    ]
    if learned:
        assert len(lines) == 3
    else:
        assert lines[3].startswith("no better than the most frequent label: ")
        assert "--learning_rate" in lines[3]


def test_several_runs_have_a_median_and_a_spread():
    runs = RunsResult(
        metric="accuracy",
        results={f"run-{n}": result(x) for n, x in enumerate((0.7, 0.9, 0.8))},
        reference=REFERENCE,
    )
    assert (
        "accuracy: median 0.8000 of 3 runs, 0.7000 to 0.9000, standard "
        "deviation 0.1000"
    ) in runs.summary().splitlines()


def test_of_equal_runs_that_with_the_lower_loss_is_the_best():
    runs = RunsResult(
        metric="accuracy",
        results={"run-0": result(0.7, 0.6), "run-1": result(0.7, 0.5)},
    )
    assert '"best": "run-1"' in runs.to_json()


def test_the_lowest_error_is_the_best():
    reference = Reference(
        baselines={"mean label": {"rmse": 2.0}},
        num_examples=100,
        num_scored=100,
        perfect_score=0.0,
        lower_is_better=("rmse",),
    )
    runs = RunsResult(
        metric="rmse",
        results={
            f"run-{n}": FinetuneResult(training=None, step=8, scores=scores)
            for n, scores in enumerate(({"rmse": 1.0}, {"rmse": 0.5}))
        },
        reference=reference,
    )
    assert '"best": "run-1"' in runs.to_json()
    assert not reference.warning("rmse", 1.9)
    assert reference.warning("rmse", 2.1)


def test_an_interrupted_run_has_a_summary():
    training = TrainingResult(3, True, {}, {})
    runs = RunsResult(
        metric="accuracy",
        results={"": FinetuneResult(training=training)},
    )
    assert runs.summary() == "model: interrupted after step 3"
    assert runs.interrupted


def test_undefined_baselines_count_as_zero():
    reference = Reference(
        baselines={"mean label": {"pearson": float("nan"), "loss": 2.0}},
        num_examples=100,
        num_scored=100,
    )
    assert reference.warning("pearson", 0.04)
    assert not reference.warning("pearson", 0.06)
    # Of SQuAD, in percent.
    reference = Reference(
        baselines={"no answer": {"f1": 50.0}},
        num_examples=100,
        num_scored=100,
        perfect_score=100.0,
    )
    assert reference.warning("f1", 54.0)
    assert not reference.warning("f1", 56.0)
