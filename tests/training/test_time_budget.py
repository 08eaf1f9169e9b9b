"""Runs with a time budget."""

import shutil
import time

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.training.checkpoint_files import (
    checkpoint_path,
    list_checkpoints,
    read_checkpoint,
    read_time,
)
from albert_tf.training.logging import read_metrics
from albert_tf.training.phases import TrainingPhase
from albert_tf.training.schedules import PolynomialDecay, WarmupStableDecay
from albert_tf.training.time_budget import LastDecay, TimeBudget

MANY = 100_000


def numbers(seconds=0.0):
    """Batches of their number, each after some time."""

    def wait(number):
        time.sleep(seconds)
        return number

    def batches(first):
        dataset = tf.data.Dataset.range(first, MANY)
        if seconds:
            dataset = dataset.map(
                lambda n: tf.ensure_shape(
                    tf.numpy_function(wait, [n], tf.int64), []
                )
            )
        return dataset.map(lambda n: {"x": tf.sin([tf.cast(n, tf.float32)])})

    return batches


@pytest.fixture
def train(toy, one_device):
    """Returns `train(run_dir, schedule, seconds_per_step, **settings)`."""

    def run(run_dir, schedule, seconds=0.0, first_steps=(0,), **settings):
        defaults = {"save_checkpoints_steps": 50, "steps_per_loop": 5}
        _, _, result = toy.fit(
            one_device,
            toy.NoisyLoss(),
            [
                TrainingPhase(first, numbers(seconds), toy.NoisyLoss())
                for first in first_steps
            ],
            schedule=schedule,
            run_dir=run_dir,
            evaluate=lambda: {"accuracy": 0.5},
            **defaults | {"log_steps": 1, "keep_checkpoint_max": 99} | settings,
        )
        return result

    return run


def newest(run):
    found = list_checkpoints(run / "checkpoints")
    return found[max(found)]


def assert_same(run, other, rtol=0.0):
    ours, theirs = (read_checkpoint(newest(x)) for x in (run, other))
    ours.pop("time", None)
    theirs.pop("time", None)
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_allclose(ours[name], theirs[name], rtol, 0, name)


def stable(steps, decay_steps=0):
    return WarmupStableDecay(0.01, steps, 5, decay_steps)


def test_run_ends_in_time_like_one_of_that_length(train, tmp_path, capsys):
    run, began = tmp_path / "run", time.monotonic()
    timed = {"num_train_steps": MANY, "max_minutes": 0.1}
    result = train(run, stable(MANY, 20), 0.02, **timed)
    assert time.monotonic() - began < 60 * 0.1 + 5  # A busy machine.
    elapsed, first, steps = read_time(newest(run))
    assert (result.steps, steps) == (first + 20, 20)
    assert not result.interrupted
    assert not result.stopped_early
    assert 4 < elapsed < 60 * 0.1 + 5
    assert first > 30
    assert result.evaluations.keys() == {result.steps}
    said = capsys.readouterr().err
    assert f"decays in the 20 steps from {int(first) + 1:,} on, and" in said
    assert f"time: {result.steps:,} of 100,000 steps in 0." in said
    assert " of 0.1 minutes, the last 20 with a falling rate" in said
    plain = tmp_path / "plain"
    train(plain, stable(result.steps, 20), num_train_steps=result.steps)
    # The graph of `WarmupStableDecay` has constants, which are folded.
    assert_same(run, plain, rtol=1e-5)
    rates = [
        [x["values"].get("learning_rate") for x in read_metrics(folder)]
        for folder in (run, plain)
    ]
    assert rates[0] == rates[1]
    assert rates[0][-2] < rates[0][10]
    # The decision is in the checkpoint of its step, and a resumed run follows
    # it, with the same budget, another one or none.
    for name, changes in (
        ("same", {}),
        ("longer", {"max_minutes": 9}),
        ("none", {"max_minutes": 0}),
    ):
        resumed = shutil.copytree(run, tmp_path / name)
        for step in list_checkpoints(run / "checkpoints"):
            if step > first:
                path = checkpoint_path("checkpoints", step)
                for file in resumed.glob(f"{path}.*"):
                    file.unlink()
        assert read_time(newest(resumed))[1:] == (first, 20)
        result = train(resumed, stable(MANY, 20), **timed | changes)
        assert result.steps == first + 20
        assert_same(resumed, run)


@pytest.mark.parametrize("schedule", [stable(MANY), PolynomialDecay(0.01, 200)])
def test_other_schedules_decay_in_a_fifth_of_all_steps(
    train, tmp_path, schedule
):
    run = tmp_path / "run"
    steps = schedule.num_train_steps
    train(run, schedule, 0.05, num_train_steps=steps, max_minutes=0.08)
    _, first, decay = read_time(newest(run))
    assert first + decay < steps
    assert decay / (first + decay) == pytest.approx(0.2, abs=0.05)
    rates = {
        line["step"]: line["values"]["learning_rate"]
        for line in read_metrics(run)
        if line["split"] == "train"
    }
    done = np.arange(decay) / decay
    expected = schedule(tf.range(int(first), int(first + decay))).numpy()
    expected *= 1 - np.sqrt(done)
    found = [rates[step + 1] for step in range(int(first), int(first + decay))]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_several_phases_end_in_time(train, tmp_path):
    run, plain = tmp_path / "run", tmp_path / "plain"
    timed = {"num_train_steps": MANY, "max_minutes": 0.1}
    phases = {"first_steps": (0, 20, 5000)}
    result = train(run, stable(MANY, 10), 0.03, **phases, **timed)
    _, first, decay = map(int, read_time(newest(run)))
    length = result.steps
    assert 20 < length == first + decay < 5000
    phases = {"first_steps": (0, 20)}
    train(plain, stable(length, decay), num_train_steps=length, **phases)
    assert_same(run, plain, rtol=1e-5)
    # It has ended, whatever phases would follow.
    assert train(run, stable(MANY, 10), **phases, **timed).steps == length


def test_time_of_earlier_commands_counts(train, tmp_path):
    timed = {"num_train_steps": 50, "max_minutes": 1.0}
    train(tmp_path, stable(50), **timed)
    state = read_time(newest(tmp_path))
    assert len(state) == 1  # It had enough time.
    again = TimeBudget(
        1.0, stable(50), MANY, started=time.monotonic(), state=(58.9,)
    )
    assert again.elapsed >= 58.9
    steps = range(1, MANY)
    first = next(s for s in steps if again.decide(s, 1) or time.sleep(0.02))
    assert again.last_decay == again.state[1:]
    assert (again.last_decay.first_step, again.last_step) == (
        first,
        again.last_decay.end,
    )
    # A fifth of the steps, in what was left of the minute.
    assert again.last_decay.steps == pytest.approx(first / 4, abs=2)
    time.sleep(0.02 * again.last_decay.steps)
    assert 59 < again.elapsed < 61


def test_time_is_kept_by_a_command_without_a_budget(train, tmp_path):
    train(tmp_path, stable(50), num_train_steps=50, max_minutes=1.0)
    (before,) = read_time(newest(tmp_path))
    result = train(tmp_path, stable(100), num_train_steps=100)
    assert result.steps == 100
    assert read_time(newest(tmp_path)) == (before,)
    train(tmp_path, stable(150), num_train_steps=150, max_minutes=1.0)
    (after,) = read_time(newest(tmp_path))
    assert after > before


def test_a_budget_that_is_over_leaves_one_step():
    budget = TimeBudget(0.01, stable(99, 20), 99, started=-1e6)
    assert budget.decide(1, launch=1)
    assert budget.last_decay == LastDecay(1, 1)
    said = budget.describe_decision()
    assert "warm-up of 5 steps is not over: the highest rate is 0.002" in said


def test_too_little_time_for_the_warm_up_is_said_early():
    schedule = WarmupStableDecay(0.01, MANY, MANY // 2)
    budget = TimeBudget(0.1, schedule, MANY, started=time.monotonic())
    said = []
    for step in range(1, 9):
        assert not budget.decide(step, launch=1)
        said.append(budget.warn_of_warmup())
        time.sleep(0.02)
    (warning,) = filter(None, said)
    assert said.index(warning) < 5
    assert "0.1 minutes allow about " in warning
    assert "fewer than the 50,000 of the warm-up" in warning


def test_without_a_budget_nothing_changes():
    schedule = stable(99)
    budget = TimeBudget(0, schedule, 99, started=-1e6)
    assert budget.schedule is schedule
    assert not budget.decide(5, launch=1)
    assert (budget.last_step, budget.state) == (99, ())
