import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training import optimizers, schedules
from albert_tf.training.best_checkpoint import evaluations_since_best, read_best
from albert_tf.training.checkpoint_files import list_checkpoints
from albert_tf.training.loop import train
from albert_tf.training.metrics_log import read_metrics
from albert_tf.training.training_config import TrainingConfig

NAN = float("nan")


@pytest.mark.parametrize(
    ("metric", "values", "since"),
    [
        ("accuracy", [], 0),
        ("accuracy", [0.5], 0),
        ("accuracy", [0.5, 0.4, 0.5], 2),  # equal is not better
        ("accuracy", [0.5, 0.4, 0.6], 0),
        ("loss", [2.0, 1.0, 3.0], 1),
        ("accuracy", [None, NAN], 2),
        ("accuracy", [None, 0.1, NAN], 1),
    ],
)
def test_evaluations_behind_the_best_are_counted(metric, values, since):
    lines = [
        {"split": "eval", "step": n, "values": {metric: value}}
        for n, value in enumerate(values, 1)
    ]
    lines.append({"split": "train", "step": 9, "values": {metric: 9.0}})
    assert evaluations_since_best(lines, metric) == since


@pytest.mark.parametrize(
    "settings",
    [
        {"early_stopping_patience": -1},
        {"early_stopping_patience": 2, "eval_steps": 4},
        {"early_stopping_patience": 2, "best_metric": "accuracy"},
    ],
)
def test_patience_needs_something_to_wait_for(settings):
    with pytest.raises(InputError, match="early_stopping_patience=-?[12] must"):
        TrainingConfig(total_steps=8, **settings)


class Killed(Exception):
    pass


def train_scored(toy, run_dir, scores, kill_at=None, **settings):
    """Trains 24 steps; evaluation n (from 1), at step 4 n, has `scores[n-1]`.

    Returns the result, the weights and the steps that were evaluated now.
    """
    strategy = tf.distribute.OneDeviceStrategy("/CPU:0")
    with strategy.scope():
        model = toy.Toy()
    settings = {
        "total_steps": 24,
        "eval_steps": 4,
        "save_steps": 6,
        "log_steps": 2,
        "keep_checkpoints": 9,
        "best_metric": "accuracy",
        "early_stopping_patience": 2,
        **settings,
    }
    evaluated = []

    def evaluate():
        step = read_metrics(run_dir)[-1]["step"]
        if step == kill_at:
            raise Killed
        evaluated.append(step)
        return {"accuracy": scores[step // 4 - 1]}

    result = train(
        TrainingConfig(**settings),
        strategy,
        model,
        toy.ToyTask(),
        optimizers.Lamb(),
        schedules.PolynomialDecay(0.01, 24),
        toy.batches,
        run_dir=run_dir,
        evaluate=evaluate,
    )
    return result, toy.weights(model), evaluated


def test_run_stops_when_nothing_gets_better(toy, tmp_path, capfd):
    scores = [0.4, 0.6, 0.5, 0.6, 0.9, 0.9]
    result, weights, _ = train_scored(toy, tmp_path, scores)
    assert result.stopped_early
    assert not result.interrupted
    assert result.steps == 16
    assert result.evaluation == {"accuracy": 0.6}
    line = "Stopped early after step 16 of 24: accuracy was not better in the"
    assert line in capfd.readouterr().err
    # 16 is no multiple of save_steps, and saved all the same.
    assert max(list_checkpoints(tmp_path / "checkpoints")) == 16
    assert read_best(tmp_path / "checkpoints").step == 8
    # Started again, it does nothing but say so.
    log = read_metrics(tmp_path)
    again, same, evaluated = train_scored(toy, tmp_path, scores)
    assert again.stopped_early
    assert again.steps == 16
    assert evaluated == []
    assert line in capfd.readouterr().err
    assert read_metrics(tmp_path) == log
    for name, value in weights.items():
        np.testing.assert_array_equal(same[name], value)
    # More patience takes it further.
    more, *_ = train_scored(toy, tmp_path, scores, early_stopping_patience=4)
    assert not more.stopped_early
    assert more.steps == 24


def test_patience_lasts_to_the_end(toy, tmp_path, capfd):
    scores = [0.1, 0.2, 0.3, 0.4, 0.3, 0.2]
    result, *_ = train_scored(toy, tmp_path, scores)
    assert result.steps == 24
    assert not result.stopped_early  # It was at its end anyway.
    assert "Stopped early" not in capfd.readouterr().err


@pytest.mark.parametrize("kill_at", [4, 12, 16])
@pytest.mark.parametrize("keep", [1, 9])
def test_killed_run_stops_where_it_would_have(toy, tmp_path, kill_at, keep):
    scores = [0.4, 0.6, 0.5, 0.6, 0.9, 0.9]
    whole = tmp_path / "whole"
    _, weights, _ = train_scored(toy, whole, scores, keep_checkpoints=keep)
    run_dir = tmp_path / "killed"
    with pytest.raises(Killed):
        train_scored(toy, run_dir, scores, kill_at, keep_checkpoints=keep)
    result, same, _ = train_scored(toy, run_dir, scores, keep_checkpoints=keep)
    assert result.stopped_early
    assert result.steps == 16
    for name, value in weights.items():
        np.testing.assert_array_equal(same[name], value)

    def evaluations(folder):
        lines = read_metrics(folder)
        return [(x["step"], x["values"]) for x in lines if x["split"] == "eval"]

    assert evaluations(run_dir) == evaluations(whole)
