"""The best checkpoint of a run, and early stopping."""

import itertools
import unittest.mock

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.training.best_checkpoint import FILE, Best, read_best, write_best
from albert_tf.training.checkpoint_files import (
    find_checkpoint,
    list_checkpoints,
    read_checkpoint,
)
from albert_tf.training.config import TrainingConfig
from albert_tf.training.evaluations import Evaluations
from albert_tf.training.logging import read_metrics

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("metric", "values", "losses", "step", "since"),
    [
        ("accuracy", [], [], None, 0),
        # Higher scores and lower losses are better.
        ("accuracy", [0.5, 0.7, 0.6], [], 2, 1),
        ("sop_loss", [2.0, None, 3.0], [], 1, 2),
        ("absolute_error", [2.0, 1.0, 3.0], [], 2, 1),
        ("accuracy", [None, 0.1, NAN], [], 2, 1),
        ("accuracy", [None, NAN, -INF], [], None, 3),
        # Of equal scores, that of the lower loss, wherever it is,
        ("accuracy", [0.5, 0.5, 0.5], [1.4, 0.7, 0.9], 2, 2),
        # or else the later one; either is no improvement.
        ("accuracy", [0.5, 0.5, 0.4], [0.7, 0.7, 0.1], 2, 2),
        ("accuracy", [0.5, 0.5], [], 2, 1),
        # A loss that is not finite is none.
        ("accuracy", [0.5, 0.5, 0.5], [0.7, NAN, None], 1, 2),
        ("accuracy", [0.5, 0.5], [INF, 9.0], 2, 1),
    ],
)
def test_the_best_evaluation(metric, values, losses, step, since):
    config = TrainingConfig(num_train_steps=9, best_metric=metric)
    scores = {
        step: {
            name: x
            for name, x in zip((metric, "loss"), pair, strict=True)
            if x is not None
        }
        for step, pair in enumerate(itertools.zip_longest(values, losses), 1)
    }
    errors = ("absolute_error",)
    live = Evaluations(
        config, lambda step: lambda: {metric: NAN} | scores[step], None, errors
    )
    for number in scores:
        _, best = live.run(number)
        live.best = best or live.best
    # As the log has it.
    lines = [
        {
            "split": "eval",
            "step": number,
            "values": {
                name: x if np.isfinite(x) else None for name, x in each.items()
            },
        }
        for number, each in scores.items()
    ]
    lines.append({"split": "train", "step": 9, "values": {metric: 0.0}})
    for saved, best in ((range(9), step), ((), None)):
        checkpoints = unittest.mock.Mock(**{"steps.return_value": saved})
        resumed = Evaluations(config, None, checkpoints, errors)
        resumed.restore(lines, 9)
        assert resumed.since_improvement == live.since_improvement == since
        assert (resumed.best and resumed.best.step) == best
        checkpoints.keep_best.assert_called_once_with(resumed.best)
    assert (live.best and live.best.step) == step


def test_unknown_metric_is_an_error():
    config = TrainingConfig(num_train_steps=9, best_metric="f1")
    evaluations = Evaluations(config, lambda step: lambda: {"loss": 1, "a": 0})
    with pytest.raises(InputError, match="best_metric='f1': .* has a, loss"):
        evaluations.run(1)


def test_record_is_written_and_removed(tmp_path):
    assert read_best(tmp_path) is None
    write_best(tmp_path, Best(3, "loss", 0.5))
    assert read_best(tmp_path) == Best(3, "loss", 0.5)
    write_best(tmp_path, Best(3, "f1", 0.5, 0.25))
    assert read_best(tmp_path) == Best(3, "f1", 0.5, 0.25)
    # Versions before this one wrote no loss.
    (tmp_path / FILE).write_text('{"step": 3, "metric": "f1", "value": 0.5}')
    assert read_best(tmp_path) == Best(3, "f1", 0.5)
    write_best(tmp_path, None)
    write_best(tmp_path, None)
    assert read_best(tmp_path) is None
    (tmp_path / FILE).write_text("[]")
    with pytest.raises(InputError, match="not a valid record of the best"):
        read_best(tmp_path)


SHORT = {"num_train_steps": 16, "log_steps": 6, "keep_checkpoint_max": 1}


def test_best_checkpoint_stays_beside_the_newest(toy, tmp_path):
    folder = tmp_path / "checkpoints"
    with pytest.raises(KeyboardInterrupt):
        toy.train_scored(tmp_path, {4: 0.4, 8: 0.8, 12: 0.6, 16: None}, **SHORT)
    assert read_best(folder) == Best(8, "accuracy", 0.8)
    assert list(list_checkpoints(folder)) == [8, 16]
    best = find_checkpoint(tmp_path / "best")
    assert best == find_checkpoint(folder / "best")
    assert read_checkpoint(best)["step"] == 8
    assert read_checkpoint(find_checkpoint(tmp_path))["step"] == 16
    # What was evaluated is logged; the stop came in between.
    toy.train_scored(tmp_path, {16: 0.7}, **SHORT)
    assert read_best(folder).step == 8


def test_record_follows_the_step_that_a_run_resumes_from(toy, tmp_path):
    folder = tmp_path / "checkpoints"
    scores = {4: 0.4, 8: 0.5, 12: 0.6, 16: 0.9}
    settings = SHORT | {"keep_checkpoint_max": 5}
    toy.train_scored(tmp_path, scores, **settings)
    assert read_best(folder).step == 16
    # The newest two are lost; the best of what is left is that of 8.
    for step in (12, 16):
        (folder / f"step-{step:08d}.index").write_bytes(b"")
    with pytest.raises(KeyboardInterrupt):
        toy.train_scored(tmp_path, {12: None}, **settings)
    assert read_best(folder).step == 8
    # As if it had been killed before it wrote the record.
    (folder / FILE).unlink()
    toy.train_scored(tmp_path, {12: 0.1, 16: 0.2}, **settings)
    assert read_best(folder) == Best(8, "accuracy", 0.5)


@pytest.mark.parametrize(
    "settings",
    [
        {"early_stopping_patience": -1},
        {"early_stopping_patience": 2, "eval_steps": 4},
        {"early_stopping_patience": 2, "best_metric": "accuracy"},
    ],
)
def test_patience_needs_metric_and_evaluations(settings):
    with pytest.raises(InputError, match="early_stopping_patience=-?[12] must"):
        TrainingConfig(num_train_steps=8, **settings)


# With a patience of 2 the run ends at step 16: an equal score is kept as the
# best, but is no improvement.
SCORES = {4: 0.4, 8: 0.6, 12: 0.5, 16: 0.6, 20: 0.9, 24: 0.9}
PATIENT = {"early_stopping_patience": 2, "keep_checkpoint_max": 9}


def test_run_stops_when_nothing_improves(toy, tmp_path, capfd):
    result, weight, _ = toy.train_scored(tmp_path, SCORES, **PATIENT)
    assert result.stopped_early
    assert not result.interrupted
    assert result.steps == 16
    assert result.evaluation == {"accuracy": 0.6}
    line = "Stopped early after step 16 of 24: accuracy was not better in the"
    assert line in capfd.readouterr().err
    # 16 is no multiple of save_checkpoints_steps, and saved all the same.
    assert max(list_checkpoints(tmp_path / "checkpoints")) == 16
    assert read_best(tmp_path / "checkpoints").step == 16
    # Started again, it does nothing but say so.
    log = read_metrics(tmp_path)
    again, same, evaluated = toy.train_scored(tmp_path, SCORES, **PATIENT)
    assert again.stopped_early
    assert again.steps == 16
    assert evaluated == []
    assert line in capfd.readouterr().err
    assert read_metrics(tmp_path) == log
    np.testing.assert_array_equal(same, weight)
    # More patience takes it further.
    more = {**PATIENT, "early_stopping_patience": 4}
    result, *_ = toy.train_scored(tmp_path, SCORES, **more)
    assert not result.stopped_early
    assert result.steps == 24


def evaluations(folder):
    lines = read_metrics(folder)
    return [(x["step"], x["values"]) for x in lines if x["split"] == "eval"]


@pytest.mark.parametrize(
    ("keep", "kills"),
    [(1, (4, 16)), pytest.param(9, (12,), marks=pytest.mark.long)],
)
def test_killed_run_stops_where_it_would_have(toy, tmp_path, keep, kills):
    settings = PATIENT | {"keep_checkpoint_max": keep}
    whole = tmp_path / "whole"
    _, weight, _ = toy.train_scored(whole, SCORES, **settings)
    for kill_at in kills:
        run_dir = tmp_path / f"killed-{kill_at}"
        with pytest.raises(KeyboardInterrupt):
            toy.train_scored(run_dir, SCORES | {kill_at: None}, **settings)
        result, same, _ = toy.train_scored(run_dir, SCORES, **settings)
        assert result.stopped_early
        assert result.steps == 16
        np.testing.assert_array_equal(same, weight)
        assert evaluations(run_dir) == evaluations(whole)
