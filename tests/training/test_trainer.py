import functools
import threading
import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training import checkpoints, optimizers, schedules
from albert_tf.training.checkpoint_files import (
    list_checkpoints,
    read_checkpoint,
)
from albert_tf.training.config import TrainingConfig
from albert_tf.training.distribution import make_strategy
from albert_tf.training.logging import read_metrics
from albert_tf.training.trainer import Trainer


def difference(a, b):
    assert a.keys() == b.keys()
    return max(np.abs(a[name] - b[name]).max() for name in a)


@pytest.fixture(scope="module")
def reference(toy):
    """20 steps on one device, without accumulation or dropout."""
    model, optimizer, result = toy.run(make_strategy("one_device"))
    return toy.weights(model), optimizer.slots, result


def test_training_learns_and_clips(toy, reference):
    weights, _, result = reference
    assert result.steps == 20
    assert not result.interrupted
    assert difference(weights, toy.weights(toy.Toy())) > 0.1
    assert result.metrics["gradient_norm"] > 1.0
    assert result.metrics["learning_rate"] == pytest.approx(0.02 * 21 / 40)
    assert result.metrics["loss"] == pytest.approx(
        result.metrics["token_loss"] + result.metrics["parity_loss"], rel=1e-2
    )
    assert result.metrics["examples_per_second"] > 0
    assert result.metrics["tokens_per_second"] > 0


@pytest.mark.parametrize(("replicas", "accumulation"), [(1, 4), (2, 1), (2, 3)])
def test_neither_replicas_nor_accumulation_change_the_weights(
    toy, reference, one_device, two_replicas, replicas, accumulation
):
    strategy = one_device if replicas == 1 else two_replicas
    model, optimizer, result = toy.run(
        strategy, gradient_accumulation_steps=accumulation
    )
    weights, slots, reference_result = reference
    assert difference(toy.weights(model), weights) < 1e-6
    for name, slot in optimizer.slots.items():
        np.testing.assert_allclose(slot, slots[name], atol=1e-6)
    for name in ("loss", "token_loss", "gradient_norm"):
        assert result.metrics[name] == pytest.approx(
            reference_result.metrics[name], rel=1e-5
        )


def test_unclipped_adamw_agrees_too(toy, one_device, two_replicas):
    settings = {"clip_norm": 0.0}
    one, *_ = toy.run(one_device, optimizer=optimizers.AdamW(), **settings)
    two, *_ = toy.run(
        two_replicas,
        optimizer=optimizers.AdamW(),
        gradient_accumulation_steps=2,
        **settings,
    )
    # Weights of about 1 are rounded by up to 6e-8 in each of the 20 updates,
    # how depends on the processor (1.03e-6 in all on one, less on others).
    assert difference(toy.weights(one), toy.weights(two)) < 20 * 2 * 6e-8


def test_same_slices_get_the_same_dropout(
    toy, reference, one_device, two_replicas
):
    split, *_ = toy.run(two_replicas, rate=0.3)
    accumulated, *_ = toy.run(
        one_device, rate=0.3, gradient_accumulation_steps=2
    )
    assert difference(toy.weights(split), toy.weights(accumulated)) < 1e-6
    assert difference(toy.weights(split), reference[0]) > 1e-3


def test_steps_per_loop_does_not_matter(toy, reference, one_device):
    model, *_ = toy.run(one_device, steps_per_loop=1)
    assert difference(toy.weights(model), reference[0]) == 0.0


def test_the_step_compiles_with_xla(toy, reference, one_device):
    model, *_ = toy.run(
        one_device,
        rate=0.0,
        jit_compile=True,
        gradient_accumulation_steps=2,
    )
    assert difference(toy.weights(model), reference[0]) < 1e-5


def test_xla_on_several_replicas_is_refused(toy, two_replicas):
    with pytest.raises(InputError, match="jit_compile=True works on one"):
        toy.run(two_replicas, jit_compile=True)


class SeedLoss:
    """Records the seeds of all slices in the weight they are assigned to."""

    def normalizers(self, batch):
        return {"one": tf.constant(1.0)}

    def __call__(self, model, batch, normalizers, seed):
        noise = tf.random.stateless_uniform([], seed)
        loss = 0.0 * tf.reduce_sum(model.weight) + noise
        return loss, {"square": tf.stack([noise**2, 1.0])}


def ones(batch_size=4):
    return tf.data.Dataset.from_tensors({"x": tf.ones([batch_size])}).repeat()


@pytest.fixture
def train_one_weight(toy):
    """Returns `train(strategy, loss, data=None, model=None, **settings)`."""

    def train(strategy, loss, data=None, model=None, **settings):
        with strategy.scope():
            model = model or toy.OneWeight()
        settings = {"num_train_steps": 8, "log_steps": 1} | settings
        trainer = Trainer(
            TrainingConfig(**settings),
            strategy,
            model,
            loss,
            optimizers.AdamW(),
            schedules.PolynomialDecay(0.1, 100),
        )
        return model, trainer.fit(lambda step: ones() if data is None else data)

    return train


def test_every_slice_of_a_step_has_its_own_seed(train_one_weight, two_replicas):
    _, result = train_one_weight(
        two_replicas,
        SeedLoss(),
        gradient_accumulation_steps=2,
        num_train_steps=1,
    )
    # Four equal numbers would have (sum / 4)^2 as the mean of their squares.
    mean = result.metrics["loss"] / 4
    assert result.metrics["square"] > mean**2 + 1e-3


def test_a_step_repeats_only_under_the_same_seed(train_one_weight, one_device):
    losses = [
        train_one_weight(
            one_device, SeedLoss(), num_train_steps=steps, seed=seed
        )[1].metrics["loss"]
        for steps, seed in [(1, 0), (1, 0), (2, 0), (1, 1)]
    ]
    assert losses[0] == losses[1]
    assert len(set(losses)) == 3


class StepLoss:
    """The loss is the value of the batch, so the data decide it."""

    def normalizers(self, batch):
        return {}

    def __call__(self, model, batch, normalizers, seed):
        return tf.reduce_sum(batch["x"] * model.weight), {}


def values(numbers):
    numbers = tf.constant(numbers, tf.float32)
    return tf.data.Dataset.from_tensor_slices({"x": numbers}).batch(
        1, drop_remainder=True
    )


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_loss_that_is_not_finite_stops_the_run_by_name(
    train_one_weight, one_device, bad
):
    data = values([1.0, 2.0, 3.0, bad, 1.0, 1.0, 1.0, 1.0])
    with pytest.raises(
        FloatingPointError, match="the loss is .* at step 4 .batch 3 "
    ):
        train_one_weight(one_device, StepLoss(), data, log_steps=8)


def test_gradient_that_is_not_finite_stops_the_run(
    train_one_weight, one_device
):
    class Root(StepLoss):
        def __call__(self, model, batch, normalizers, seed):
            return tf.reduce_sum(tf.sqrt(batch["x"] * model.weight)), {}

    data = values([1.0, 0.0, 1.0])
    with pytest.raises(FloatingPointError, match="gradient norm is .* step 2"):
        train_one_weight(one_device, Root(), data, num_train_steps=3)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (values([1.0] * 3), "have 3 batches, fewer than the 8 steps to do"),
        (values([1.0]).filter(lambda batch: False), "have 0 batches"),
        # Whose number of batches TensorFlow does not know before.
        (values([1.0] * 3).filter(lambda batch: True), "between step 2 and 4"),
    ],
)
def test_data_that_end_early_are_named(
    train_one_weight, one_device, data, message
):
    with pytest.raises(InputError, match=message):
        train_one_weight(one_device, StepLoss(), data, log_steps=2)


def test_the_data_that_are_checked_are_those_that_are_read(toy, one_device):
    """A pipeline takes seconds to trace: it is built once."""
    starts = []

    def data(first):
        starts.append(first)
        return ones()

    with one_device.scope():
        model = toy.OneWeight()
    trainer = Trainer(
        TrainingConfig(num_train_steps=2),
        one_device,
        model,
        SeedLoss(),
        optimizers.AdamW(),
        schedules.PolynomialDecay(0.1, 100),
    )
    trainer.fit(data)
    assert starts == [0]


def test_update_k_has_the_rate_of_step_k(train_one_weight, one_device):
    model, result = train_one_weight(
        one_device, StepLoss(), values([1.0, 1.0]), num_train_steps=2
    )
    weight, m, v = 1.0, 0.0, 0.0
    for step in range(2):
        m, v = 0.9 * m + 0.1 / 3**0.5, 0.999 * v + 0.001 / 3
        rate = 0.1 * (1 - step / 100)
        weight -= rate * (m / (v**0.5 + 1e-6) + 0.01 * weight)
    np.testing.assert_allclose(model.weight, [weight] * 3, rtol=1e-5)
    assert result.metrics["learning_rate"] == pytest.approx(0.099)


def test_frozen_model_is_refused(toy, train_one_weight, one_device):
    with one_device.scope():
        model = toy.OneWeight()
    model.trainable = False
    with pytest.raises(InputError, match="no trainable variable"):
        train_one_weight(one_device, StepLoss(), model=model)


def test_model_of_no_strategy_is_refused(toy, train_one_weight, two_replicas):
    with pytest.raises(ValueError, match="create the model under"):
        train_one_weight(two_replicas, StepLoss(), model=toy.OneWeight())


def test_loss_without_variables_is_refused(train_one_weight, one_device):
    class Constant(StepLoss):
        def __call__(self, model, batch, normalizers, seed):
            return tf.reduce_sum(batch["x"]), {}

    with pytest.raises(InputError, match="depends on no trainable variable"):
        train_one_weight(one_device, Constant())


def test_unused_variable_is_not_even_decayed(toy, reference):
    fresh, trained = toy.weights(toy.Toy()), reference[0]
    name = "unused/kernel"
    (path,) = [path for path in fresh if path.endswith(name)]
    np.testing.assert_array_equal(fresh[path], trained[path])


def train_and_evaluate(toy, strategy, run_dir, evaluate, **settings):
    settings = {
        "num_train_steps": 10,
        "log_steps": 5,
        "save_checkpoints_steps": 4,
        "eval_steps": 4,
        **settings,
    }
    *_, result = toy.run(
        strategy, run_dir=run_dir, evaluate=evaluate, **settings
    )
    return result


@pytest.mark.parametrize("compiled", [False, True])
def test_steps_go_on_while_a_checkpoint_is_written(
    toy, one_device, tmp_path, monkeypatch, compiled
):
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

    monkeypatch.setattr(checkpoints, "write_checkpoint", slow_write)
    settings = {
        "log_steps": 8,
        "save_checkpoints_steps": 5,
        "jit_compile": compiled,
    }
    train_and_evaluate(
        toy, one_device, tmp_path / "a", evaluate, eval_steps=8, **settings
    )
    assert waited == [True]
    monkeypatch.undo()
    with pytest.raises(KeyboardInterrupt):
        train_and_evaluate(
            toy, one_device, tmp_path / "b", stop, eval_steps=5, **settings
        )
    written, expected = (
        read_checkpoint(tmp_path / name / "checkpoints" / "step-00000005")
        for name in "ab"
    )
    assert written.keys() == expected.keys()
    for name, value in written.items():
        np.testing.assert_array_equal(value, expected[name])


def stop():
    raise KeyboardInterrupt


def logged_steps(run_dir, split):
    lines = read_metrics(run_dir)
    return [line["step"] for line in lines if line["split"] == split]


def test_evaluation_runs_on_its_multiples_and_at_the_end(
    toy, one_device, tmp_path
):
    result = train_and_evaluate(
        toy, one_device, tmp_path, lambda: {"accuracy": 0.5}
    )
    assert result.evaluation == {"accuracy": 0.5}
    assert logged_steps(tmp_path, "eval") == [4, 8, 10]
    # Wherever it saved, too: a resumed run has the same means.
    assert logged_steps(tmp_path, "train") == [4, 5, 8, 10]


def test_evaluation_that_was_stopped_is_made_up_for(toy, one_device, tmp_path):
    def stop_at(step):
        if logged_steps(tmp_path, "train")[-1] == step:
            raise KeyboardInterrupt
        return {"accuracy": 0.0}

    for step, done in ((8, [4]), (10, [4, 8])):
        with pytest.raises(KeyboardInterrupt):
            train_and_evaluate(
                toy, one_device, tmp_path, functools.partial(stop_at, step)
            )
        assert logged_steps(tmp_path, "eval") == done
    for expected in ({"accuracy": 1.0}, {}):
        result = train_and_evaluate(
            toy, one_device, tmp_path, lambda: {"accuracy": 1.0}
        )
        assert result.evaluation == expected
        assert logged_steps(tmp_path, "eval") == [4, 8, 10]
        assert logged_steps(tmp_path, "train") == [4, 5, 8, 10]


def test_logged_means_weigh_every_step_of_the_interval(
    train_one_weight, one_device, tmp_path
):
    class Weighted(StepLoss):
        def __call__(self, model, batch, normalizers, seed):
            x = tf.reduce_sum(batch["x"])
            loss, _ = super().__call__(model, batch, normalizers, seed)
            return loss, {"mean_x": tf.stack([x * x, x])}

    _, result = train_one_weight(
        one_device,
        Weighted(),
        values([1.0, 2.0, 3.0]),
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


class SlowLoss(SeedLoss):
    def __call__(self, model, batch, normalizers, seed):
        loss, metrics = super().__call__(model, batch, normalizers, seed)
        return loss + 0.0 * slowly(tf.constant(0.0)), metrics


@pytest.mark.parametrize("replicas", [1, 2])
def test_the_share_of_waiting_for_input(
    train_one_weight, one_device, two_replicas, replicas
):
    strategy = one_device if replicas == 1 else two_replicas
    slow_data = ones().map(lambda batch: {"x": slowly(batch["x"])})
    shares = []
    for loss, data in ((SeedLoss(), slow_data), (SlowLoss(), ones())):
        _, result = train_one_weight(
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


@pytest.fixture
def float16():
    keras.config.set_dtype_policy("mixed_float16")
    yield
    keras.config.set_dtype_policy("float32")


@pytest.mark.usefixtures("float16")
def test_float16_trains_like_float32_and_resumes(
    toy, reference, one_device, tmp_path
):
    for num_train_steps in (12, 20):
        model, _, result = toy.run(
            one_device,
            dynamic_loss_scale=True,
            num_train_steps=num_train_steps,
            run_dir=tmp_path,
        )
    assert result.steps == 20
    assert result.metrics["loss_scale"] == 2.0**15
    assert 0.5 < result.metrics["gradient_norm"] < 5
    assert difference(toy.weights(model), reference[0]) < 0.02
    values = read_checkpoint(tmp_path / "checkpoints" / "step-00000020")
    assert values["loss_scale/good_steps"] == 20


@pytest.mark.usefixtures("float16")
def test_float16_without_loss_scale_is_refused(toy, one_device):
    with pytest.raises(InputError, match="requires dynamic_loss_scale=True"):
        toy.run(one_device)


def test_overflow_halves_the_scale_and_leaves_the_weights(
    train_one_weight, one_device
):
    class Huge(StepLoss):
        def __call__(self, model, batch, normalizers, seed):
            half = tf.cast(model.weight, tf.float16)
            return tf.cast(tf.reduce_sum(half), tf.float32) * 1e4, {}

    model, result = train_one_weight(
        one_device,
        Huge(),
        num_train_steps=3,
        log_steps=3,
        dynamic_loss_scale=True,
    )
    # 1e4 x scale fits float16 (65504) from scale 4 on: 13 halvings away.
    assert result.metrics["loss_scale"] == 2.0**12
    assert np.isnan(result.metrics["gradient_norm"])
    np.testing.assert_array_equal(model.weight, np.ones(3))


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
