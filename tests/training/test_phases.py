"""Runs with phases, which differ in data, batch size and loss."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training.checkpoint_files import (
    checkpoint_path,
    list_checkpoints,
    read_checkpoint,
)
from albert_tf.training.logging import read_metrics
from albert_tf.training.phases import TrainingPhase
from albert_tf.training.schedules import PolynomialDecay

STEPS, BOUNDARY = 14, 8


def numbers(size, shift=0, bad=-1, removed=()):
    """Batches of `size` examples; batch n has numbers around n + shift."""

    def batches(first):
        kept = [n for n in range(first, 100) if n not in removed]

        def batch(number):
            x = tf.sin(
                tf.cast(number + shift, tf.float32) + tf.range(size * 1.0)
            )
            return {"x": tf.where(number == bad, float("nan"), x)}

        return tf.data.Dataset.from_tensor_slices(kept).map(batch)

    return batches


@pytest.fixture
def phases(toy):
    """Eight steps, and six of larger batches whose loss has another metric."""

    class Longer(toy.NoisyLoss):
        def __call__(self, model, batch, normalizers, seed):
            loss, _ = super().__call__(model, batch, normalizers, seed)
            return loss, {"half": tf.stack([loss / 2, 1.0])}

    return [
        TrainingPhase(0, numbers(2), toy.NoisyLoss(), name="short"),
        TrainingPhase(
            BOUNDARY,
            numbers(8, shift=50),
            Longer(),
            gradient_accumulation_steps=2,
            name="long",
        ),
    ]


@pytest.fixture
def train(toy):
    """Returns `train(strategy, data, run_dir, killed_at=0, **settings)`."""

    def run(strategy, data, run_dir, killed_at=0, **settings):
        settings = {
            "num_train_steps": STEPS,
            "save_checkpoints_steps": 3,
            "log_steps": 5,
            "ema_decay": 0.9,
            "eval_steps": killed_at,
            **settings,
        }

        def kill():
            raise KeyboardInterrupt

        toy.fit(
            strategy,
            toy.NoisyLoss(),
            data,
            schedule=PolynomialDecay(0.02, 40, warmup_steps=5),
            run_dir=run_dir,
            evaluate=kill if killed_at else None,
            **settings,
        )

    return run


def values(run_dir, step=STEPS):
    return read_checkpoint(checkpoint_path(run_dir / "checkpoints", step))


def assert_same(run_dir, other, step=STEPS, but=()):
    ours, theirs = values(run_dir, step), values(other, step)
    assert ours.keys() - set(but) == theirs.keys() - set(but)
    for name in ours.keys() - set(but):
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)


def curve(run_dir):
    names = ("phase", "loss", "gradient_norm", "half")
    return [
        (line["step"], *(line["values"].get(name) for name in names))
        for line in read_metrics(run_dir)
    ]


@pytest.mark.parametrize(
    ("replicas", "kills"),
    [
        (1, (BOUNDARY, 10)),
        pytest.param(2, (4, BOUNDARY), marks=pytest.mark.long),
    ],
)
def test_run_resumed_in_any_phase_ends_bit_equal(
    train, phases, one_device, two_replicas, tmp_path, capsys, replicas, kills
):
    strategy = {1: one_device, 2: two_replicas}[replicas]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(strategy, phases, whole)
    said = capsys.readouterr().err
    assert "phase 1 of 2, steps 1 to 8: short\n" in said
    assert said.index("step 8/14") < said.index("phase 2 of 2, steps 9 to 14")
    for step in kills:
        with pytest.raises(KeyboardInterrupt):
            train(strategy, phases, parts, killed_at=step)
        newest = max(list_checkpoints(parts / "checkpoints"))
        assert newest == {4: 3, BOUNDARY: BOUNDARY, 10: 9}[step]
    train(strategy, phases, parts)
    assert_same(parts, whole)
    assert curve(parts) == curve(whole)
    # A phase ends with a line of the log.
    assert [line[:2] for line in curve(whole)] == [
        *((3, 1), (5, 1), (6, 1), (8, 1)),
        *((9, 2), (10, 2), (12, 2), (14, 2)),
    ]
    assert all((line[1] == 1) == (line[4] is None) for line in curve(whole))


def test_nothing_but_the_data_changes_at_a_boundary(
    train, toy, phases, one_device, tmp_path
):
    plain = numbers(2)
    train(one_device, plain, tmp_path / "plain")
    assert "phase" not in read_metrics(tmp_path / "plain")[0]["values"]
    going_on = [
        phases[0],
        TrainingPhase(BOUNDARY, lambda k: plain(BOUNDARY + k), toy.NoisyLoss()),
    ]
    train(one_device, going_on, tmp_path / "going_on")
    assert_same(tmp_path / "going_on", tmp_path / "plain")
    # Moments and averages continue in a phase with other batches, too.
    train(one_device, phases, tmp_path / "phases", num_train_steps=9)
    train(one_device, plain, tmp_path / "half", num_train_steps=BOUNDARY)
    assert_same(tmp_path / "phases", tmp_path / "half", BOUNDARY)
    before = values(tmp_path / "half", BOUNDARY)
    after = values(tmp_path / "phases", 9)
    seconds = [name for name in before if name.endswith("/adam_v")]
    assert len(seconds) == 1
    for name in seconds:
        assert np.all(after[name] >= 0.99 * before[name])


@pytest.mark.parametrize(
    "replicas", [1, pytest.param(2, marks=pytest.mark.long)]
)
def test_phase_begins_with_changed_variables(
    train, phases, one_device, two_replicas, tmp_path, capsys, replicas
):
    strategy = {1: one_device, 2: two_replicas}[replicas]
    seen = []

    def begin(variables):
        seen.append(sorted(variables))
        for variable in variables.values():
            variable.assign(2 * variable.read_value())
        return "all is doubled"

    changing = [phases[0], dataclasses.replace(phases[1], begin=begin)]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(strategy, changing, whole)
    said = capsys.readouterr().err
    assert said.index("phase 2 of 2") < said.index("all is doubled\n")
    assert said.count("all is doubled") == 1
    assert seen.pop() == [
        "average/one_weight/weight",
        "model/one_weight/weight",
        "optimizer/one_weight/weight/adam_m",
        "optimizer/one_weight/weight/adam_v",
    ]
    # The checkpoint at the boundary is that of the first phase.
    train(strategy, phases, tmp_path / "unchanged")
    assert_same(whole, tmp_path / "unchanged", BOUNDARY)
    after = values(whole)["model/one_weight/weight"]
    assert not np.array_equal(
        after, values(tmp_path / "unchanged")["model/one_weight/weight"]
    )
    # Killed right there, and later.
    for step in (BOUNDARY, 10):
        with pytest.raises(KeyboardInterrupt):
            train(strategy, changing, parts, killed_at=step)
    train(strategy, changing, parts)
    assert len(seen) == 1
    assert_same(parts, whole)


def test_skipped_batches_over_a_boundary(train, toy, one_device, tmp_path):
    def run(name, bad=-1, removed=(), **settings):
        data = [
            TrainingPhase(0, numbers(2, removed=removed), toy.NoisyLoss()),
            TrainingPhase(
                BOUNDARY,
                # Batches are numbered from those of the first phase on.
                lambda k: numbers(4, 50, bad)(k + len(removed)),
                toy.NoisyLoss(),
            ),
        ]
        train(one_device, data, tmp_path / name, **settings)

    # The batch of update 9, the second of its phase, and the four before it.
    skips = {"bad": 1, "skip_batches": "5-9"}
    run("skipping", **skips)
    found = values(tmp_path / "skipping")
    assert found["skipped_batches"].tolist() == [[5, 9]]
    run("clean", removed=range(5, 10))
    but = ["skipped_batches"]
    assert_same(tmp_path / "skipping", tmp_path / "clean", but=but)
    with pytest.raises(KeyboardInterrupt):
        run("killed", killed_at=12, **skips)
    run("killed", **skips)
    assert_same(tmp_path / "killed", tmp_path / "skipping")


def test_every_phase_is_checked_before_the_first_step(
    train, toy, phases, one_device, tmp_path
):
    def phase(**changes):
        settings = {"first_step": BOUNDARY, "dataset_fn": numbers(2)}
        return TrainingPhase(**settings | {"loss": toy.NoisyLoss()} | changes)

    for second, message in (
        (
            phase(gradient_accumulation_steps=5),
            "size 2 must be a multiple of 5",
        ),
        (
            phase(dataset_fn=lambda k: numbers(2)(k).take(5 - k)),
            "have 5 batches, fewer than the 6 steps",
        ),
    ):
        with pytest.raises(InputError, match=message):
            train(one_device, [phases[0], second], tmp_path)
        assert not list_checkpoints(tmp_path / "checkpoints")
    for firsts in ([], [1], [0, 3, 3], [0, STEPS]):
        data = [phase(first_step=first) for first in firsts]
        with pytest.raises(ValueError, match="must increase from 0"):
            train(one_device, data, tmp_path)
