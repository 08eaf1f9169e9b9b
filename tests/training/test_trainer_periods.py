"""When a run logs, evaluates and saves."""

import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.training import checkpoints
from albert_tf.training.checkpoint_files import (
    list_checkpoints,
    read_checkpoint,
)
from albert_tf.training.logging import read_metrics

PERIODS = {
    "num_train_steps": 10,
    "log_steps": 5,
    "save_checkpoints_steps": 4,
    "eval_steps": 4,
    "best_metric": "",
}


@pytest.mark.parametrize(
    "compiled", [False, pytest.param(True, marks=pytest.mark.long)]
)
def test_steps_go_on_while_a_checkpoint_is_written(
    toy, one_device, tmp_path, monkeypatch, compiled
):
    def train(name, evaluate, eval_steps):
        toy.train_one_weight(
            one_device,
            toy.NoisyLoss(),
            toy.ones(),
            run_dir=tmp_path / name,
            evaluate=evaluate,
            num_train_steps=10,
            log_steps=8,
            save_checkpoints_steps=5,
            eval_steps=eval_steps,
            jit_compile=compiled,
        )

    beyond, waited = threading.Event(), []
    write = checkpoints.write_checkpoint

    def slow_write(folder, step, values):
        if step == 5:
            waited.append(beyond.wait(timeout=60))
        write(folder, step, values)

    def evaluate():
        # The weights have changed three times since step 5.
        beyond.set()
        return {}

    def stop():
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoints, "write_checkpoint", slow_write)
    train("a", evaluate, eval_steps=8)
    assert waited == [True]
    monkeypatch.undo()
    with pytest.raises(KeyboardInterrupt):
        train("b", stop, eval_steps=5)
    written, expected = (
        read_checkpoint(tmp_path / name / "checkpoints" / "step-00000005")
        for name in "ab"
    )
    assert written.keys() == expected.keys()
    for name, value in written.items():
        np.testing.assert_array_equal(value, expected[name])


def logged_steps(run_dir, split):
    lines = read_metrics(run_dir)
    return [line["step"] for line in lines if line["split"] == split]


def test_evaluation_runs_on_its_multiples_and_at_the_end(toy, tmp_path):
    scores = dict.fromkeys(range(11), 0.5)
    result, *_ = toy.train_scored(tmp_path, scores, **PERIODS)
    assert result.evaluation == {"accuracy": 0.5}
    assert logged_steps(tmp_path, "eval") == [4, 8, 10]
    # Wherever it saved, too: a resumed run has the same means.
    assert logged_steps(tmp_path, "train") == [4, 5, 8, 10]


def test_resumed_run_makes_up_for_an_interrupted_evaluation(toy, tmp_path):
    for step, done in ((8, [4]), (10, [4, 8])):
        scores = dict.fromkeys(range(11), 0.0) | {step: None}
        with pytest.raises(KeyboardInterrupt):
            toy.train_scored(tmp_path, scores, **PERIODS)
        assert logged_steps(tmp_path, "eval") == done
    scores = dict.fromkeys(range(11), 1.0)
    for _ in range(2):  # The second one only reads its log.
        result, *_ = toy.train_scored(tmp_path, scores, **PERIODS)
        assert result.evaluation == {"accuracy": 1.0}
        assert logged_steps(tmp_path, "eval") == [4, 8, 10]
        assert logged_steps(tmp_path, "train") == [4, 5, 8, 10]


def test_logged_means_weigh_every_step_of_the_interval(toy, one_device):
    class Weighted(toy.StepLoss):
        def __call__(self, model, batch, normalizers, seed):
            x = tf.reduce_sum(batch["x"])
            loss, _ = super().__call__(model, batch, normalizers, seed)
            return loss, {"mean_x": tf.stack([x * x, x])}

    _, result = toy.train_one_weight(
        one_device,
        Weighted(),
        toy.values([1.0, 2.0, 3.0]),
        num_train_steps=3,
        log_steps=3,
        steps_per_loop=2,
    )
    assert result.metrics["mean_x"] == pytest.approx((1 + 4 + 9) / (1 + 2 + 3))


def slowly(value):
    """Returns a tensor 30 ms late."""

    def sleep(x):
        time.sleep(0.03)
        return x

    late = tf.numpy_function(sleep, [value], value.dtype)
    return tf.ensure_shape(late, value.shape)


@pytest.mark.parametrize(
    "replicas", [1, pytest.param(2, marks=pytest.mark.long)]
)
def test_the_share_of_waiting_for_input(
    toy, one_device, two_replicas, replicas
):
    class SlowLoss(toy.SeedLoss):
        def __call__(self, model, batch, normalizers, seed):
            loss, metrics = super().__call__(model, batch, normalizers, seed)
            return loss + 0.0 * slowly(tf.constant(0.0)), metrics

    strategy = one_device if replicas == 1 else two_replicas
    slow_data = toy.ones().map(lambda batch: {"x": slowly(batch["x"])})
    shares = []
    for loss, data in ((toy.SeedLoss(), slow_data), (SlowLoss(), toy.ones())):
        _, result = toy.train_one_weight(
            strategy,
            loss,
            data,
            num_train_steps=16,
            log_steps=8,
            steps_per_loop=8,
        )
        shares.append(result.metrics["input_wait_share"])
    assert 0.5 < shares[0] <= 1
    assert 0 <= shares[1] < 0.2


@pytest.mark.parametrize(
    ("minutes", "steps"), [(0, [24]), (1e-9, [1, *range(2, 25, 2)])]
)
def test_checkpoints_by_minutes(toy, tmp_path, minutes, steps):
    toy.train_scored(
        tmp_path,
        dict.fromkeys(range(25), 0.5),
        save_checkpoints_steps=100,
        save_checkpoints_minutes=minutes,
        keep_checkpoint_max=99,
        best_metric="",
    )
    assert list(list_checkpoints(tmp_path / "checkpoints")) == steps
