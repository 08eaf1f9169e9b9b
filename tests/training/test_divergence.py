"""Runs that stop learning: stopped, or rolled back to before."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training import optimizers
from albert_tf.training.checkpoint_files import (
    list_checkpoints,
    read_checkpoint,
)
from albert_tf.training.divergence import find_divergence
from albert_tf.training.loop import train
from albert_tf.training.metrics_log import read_metrics
from albert_tf.training.training_config import TrainingConfig

NAN = float("nan")


class Weights(keras.Model):
    def __init__(self):
        super().__init__(name="weights")
        self.weight = self.add_weight(
            shape=(3,), initializer="ones", name="weight"
        )
        self.built = True


class Task:
    """A loss that depends on the batch and on the seed of the step."""

    def normalizers(self, batch):
        return {"examples": tf.cast(tf.shape(batch["x"])[0], tf.float32)}

    def loss(self, model, batch, normalizers, seed):
        noise = tf.random.stateless_uniform([3], seed)
        error = model.weight * noise - batch["x"][:, tf.newaxis]
        return tf.reduce_sum(error**2) / normalizers["examples"], {}


def batches(bad, removed=()):
    """Batches of two examples; those numbered `bad` hold a value of its own."""
    numbers = [n for n in range(100) if n not in removed]

    def batch(number):
        x = tf.sin(tf.cast(number, tf.float32))
        for where, value in bad.items():
            x = tf.where(number == where, value, x)
        return {"x": tf.stack([x, -x])}

    data = tf.data.Dataset.from_tensor_slices(numbers).map(batch)
    return lambda first: data.skip(first)


def run(strategy, data, run_dir, *, task=None, evaluate=None, **settings):
    with strategy.scope():
        model = Weights()
    settings = {
        "total_steps": 20,
        "save_steps": 5,
        "log_steps": 5,
        "rollback_window": 3,
        **settings,
    }
    rate = settings.pop("rate", 0.02)
    optimizer = optimizers.AdamW()
    train(
        TrainingConfig(**settings),
        strategy,
        model,
        task or Task(),
        optimizer,
        lambda step: tf.constant(rate, tf.float32),
        data,
        run_dir=run_dir,
        evaluate=evaluate,
    )
    slots = optimizer.slots.values()
    return [model.weight.numpy(), *(slot.numpy() for slot in slots)]


def rollbacks(run_dir):
    found = list_checkpoints(run_dir / "checkpoints")
    values = read_checkpoint(found[max(found)])
    return values["rollbacks"].tolist()


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """A run whose data never had batches 9 to 11."""
    folder = tmp_path_factory.mktemp("clean")
    strategy = tf.distribute.OneDeviceStrategy("/CPU:0")
    return run(strategy, batches({}, removed=[9, 10, 11]), folder)


@pytest.mark.parametrize(
    "settings",
    [
        {"save_steps": 5},
        {"save_steps": 4, "steps_per_loop": 3, "keep_checkpoints": 1},
        # The first step from which it can go back: it has one saved for that.
        {"save_steps": 100},
    ],
)
def test_rolled_back_run_is_one_without_the_window(
    one_device, tmp_path, expected, settings, caplog
):
    with caplog.at_level("WARNING", "absl"):
        found = run(
            one_device,
            batches({11: NAN}),
            tmp_path,
            on_divergence="rollback",
            **settings,
        )
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert rollbacks(tmp_path) == [[12, 9, 11]]
    assert (
        "the loss is nan at step 12 (batch 11 of the data, from 0: examples 22 "
        "to 23 in the order of training); going back to step " in caplog.text
    )
    assert "leaving out batches 9 to 11" in caplog.text
    lines = read_metrics(tmp_path)
    assert [x["step"] for x in lines if x["step"] % 5 == 0] == [5, 10, 15, 20]
    assert all(x["values"]["loss"] is not None for x in lines)


def test_killed_and_resumed_run_with_rollbacks_is_the_same(
    one_device, tmp_path
):
    data = batches({2: NAN, 11: NAN, 16: 1e6})
    settings = {"on_divergence": "rollback", "max_loss": 100.0}
    undisturbed = run(one_device, data, tmp_path / "a", **settings)
    assert rollbacks(tmp_path / "a") == [[3, 0, 2], [9, 9, 11], [11, 14, 16]]

    def killed():
        raise KeyboardInterrupt

    for step in (4, 8, 12, 14):
        with pytest.raises(KeyboardInterrupt):
            run(
                one_device,
                data,
                tmp_path / "b",
                evaluate=killed,
                eval_steps=step,
                **settings,
            )
    resumed = run(one_device, data, tmp_path / "b", **settings)
    assert rollbacks(tmp_path / "b") == rollbacks(tmp_path / "a")
    for ours, theirs in zip(resumed, undisturbed, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_two_replicas_roll_back_too(two_replicas, tmp_path):
    data = batches({11: NAN})
    found = run(two_replicas, data, tmp_path / "a", on_divergence="rollback")
    assert rollbacks(tmp_path / "a") == [[12, 9, 11]]
    clean = batches({}, removed=[9, 10, 11])
    expected = run(two_replicas, clean, tmp_path / "b")
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_rollbacks_that_do_not_help_end(one_device, tmp_path):
    bad = dict.fromkeys(range(11, 100), NAN)
    with pytest.raises(
        FloatingPointError, match="step 6 .* 3 rollbacks since .* did not help"
    ):
        run(one_device, batches(bad), tmp_path, on_divergence="rollback")


def test_loss_above_the_bound_stops(one_device, tmp_path):
    with pytest.raises(
        FloatingPointError,
        match=r"the loss is 1.2e\+07, above max_loss=50, at step 13 .batch 12 ",
    ):
        run(one_device, batches({12: 2e3}), tmp_path, max_loss=50.0)
    assert max(list_checkpoints(tmp_path / "checkpoints")) == 10
    # The same command goes on from there if told how.
    run(
        one_device,
        batches({12: 2e3}),
        tmp_path,
        max_loss=50.0,
        on_divergence="rollback",
    )
    assert rollbacks(tmp_path) == [[13, 10, 12]]


def test_weights_that_are_not_finite_are_not_saved(one_device, tmp_path):
    with pytest.raises(FloatingPointError, match="a weight is not finite at"):
        run(one_device, batches({}), tmp_path, rate=np.inf, total_steps=1)
    assert not list_checkpoints(tmp_path / "checkpoints")


class HalfTask(Task):
    """The gradient overflows in float16 where the batch is large."""

    def loss(self, model, batch, normalizers, seed):
        loss, metrics = super().loss(model, batch, normalizers, seed)
        big = tf.reduce_max(tf.abs(batch["x"]))
        half = tf.cast(model.weight, tf.float16) * tf.cast(1.0, tf.float16)
        return loss + big * tf.reduce_sum(tf.cast(half, tf.float32)), metrics


def test_float16_rolls_back(one_device, tmp_path):
    data = batches({11: NAN, 6: 3e4})
    run(
        one_device,
        data,
        tmp_path,
        task=HalfTask(),
        dynamic_loss_scale=True,
        on_divergence="rollback",
    )
    # Batch 6 overflows at the first scale, so its step is only skipped.
    assert rollbacks(tmp_path) == [[12, 9, 11]]
    found = list_checkpoints(tmp_path / "checkpoints")
    values = read_checkpoint(found[20])
    assert values["loss_scale/scale"] == 2.0**14
    assert values["loss_scale/good_steps"] == 13


def test_float16_that_overflows_without_scale_stops(one_device, tmp_path):
    data = batches(dict.fromkeys(range(100), 1e5))
    with pytest.raises(FloatingPointError, match="the gradient norm is .*16 "):
        run(
            one_device,
            data,
            tmp_path,
            task=HalfTask(),
            dynamic_loss_scale=True,
        )


def test_rollback_without_a_folder_is_refused(one_device):
    with pytest.raises(InputError, match="'rollback' needs run_dir"):
        run(one_device, batches({}), None, on_divergence="rollback")


def test_first_step_that_is_bad_is_found():
    rows = np.ones([4, 3, 2])
    assert find_divergence(rows, max_loss=1.0) is None
    rows[3, 0, 0] = 2.0
    assert find_divergence(rows) is None
    assert find_divergence(rows, max_loss=1.5) == (
        3,
        "the loss is 2, above max_loss=1.5,",
    )
    rows[2, -1, 0] = np.inf
    assert find_divergence(rows, 1.5) == (2, "the gradient norm is inf")
    rows[1, 0, 0] = np.nan
    assert find_divergence(rows) == (1, "the loss is nan")
    assert find_divergence(rows, 1.5) == (1, "the loss is nan")
