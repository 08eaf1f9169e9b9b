"""Runs that diverge: stopped, or rolled back."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training.checkpoint_files import (
    list_checkpoints,
    read_checkpoint,
)
from albert_tf.training.checkpoints import Rollback
from albert_tf.training.divergence import (
    batch_of,
    batches_from,
    find_divergence,
)
from albert_tf.training.logging import read_metrics

NAN = float("nan")


def batches(bad, removed=()):
    """Batches of two examples; `bad` replaces the values of some batches."""
    numbers = [n for n in range(100) if n not in removed]

    def batch(number):
        x = tf.sin(tf.cast(number, tf.float32))
        for where, value in bad.items():
            x = tf.where(number == where, value, x)
        return {"x": tf.stack([x, -x])}

    data = tf.data.Dataset.from_tensor_slices(numbers).map(batch)
    return lambda first: data.skip(first)


def run(toy, strategy, data, run_dir, *, loss=None, rate=0.02, **settings):
    model, optimizer, _ = toy.fit(
        strategy,
        loss or toy.NoisyLoss(),
        data,
        run_dir=run_dir,
        schedule=lambda step: tf.constant(rate, tf.float32),
        **{
            "num_train_steps": 20,
            "save_checkpoints_steps": 5,
            "log_steps": 5,
            "rollback_window": 3,
            **settings,
        },
    )
    slots = optimizer.slots.values()
    return [model.weight.numpy(), *(slot.numpy() for slot in slots)]


def rollbacks(run_dir):
    found = list_checkpoints(run_dir / "checkpoints")
    values = read_checkpoint(found[max(found)])
    return values["rollbacks"].tolist()


@pytest.fixture(scope="module")
def expected(toy, tmp_path_factory):
    """A run whose data never had batches 9 to 11."""
    folder = tmp_path_factory.mktemp("clean")
    strategy = tf.distribute.OneDeviceStrategy("/CPU:0")
    return run(toy, strategy, batches({}, removed=[9, 10, 11]), folder)


@pytest.mark.parametrize(
    "settings",
    [
        {"save_checkpoints_steps": 5},
        {
            "save_checkpoints_steps": 4,
            "steps_per_loop": 3,
            "keep_checkpoint_max": 1,
        },
        # With rollbacks, step 0 is saved, too.
        {"save_checkpoints_steps": 100},
    ],
)
def test_rolled_back_run_equals_one_without_the_batches(
    toy, one_device, tmp_path, expected, settings, caplog
):
    with caplog.at_level("WARNING"):
        found = run(
            toy,
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
    assert "skipping batches 9 to 11" in caplog.text
    lines = read_metrics(tmp_path)
    assert [x["step"] for x in lines if x["step"] % 5 == 0] == [5, 10, 15, 20]
    assert all(x["values"]["loss"] is not None for x in lines)


def test_killed_and_resumed_run_with_rollbacks_is_the_same(
    toy, one_device, tmp_path
):
    data = batches({2: NAN, 11: NAN, 16: 1e6})
    settings = {"on_divergence": "rollback", "max_loss": 100.0}
    undisturbed = run(toy, one_device, data, tmp_path / "a", **settings)
    assert rollbacks(tmp_path / "a") == [[3, 0, 2], [9, 9, 11], [11, 14, 16]]

    def killed():
        raise KeyboardInterrupt

    for step in (4, 12):
        with pytest.raises(KeyboardInterrupt):
            run(
                toy,
                one_device,
                data,
                tmp_path / "b",
                evaluate=killed,
                eval_steps=step,
                **settings,
            )
    resumed = run(toy, one_device, data, tmp_path / "b", **settings)
    assert rollbacks(tmp_path / "b") == rollbacks(tmp_path / "a")
    for ours, theirs in zip(resumed, undisturbed, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.long
def test_two_replicas_roll_back_too(toy, two_replicas, tmp_path):
    data = batches({11: NAN})
    found = run(
        toy, two_replicas, data, tmp_path / "a", on_divergence="rollback"
    )
    assert rollbacks(tmp_path / "a") == [[12, 9, 11]]
    clean = batches({}, removed=[9, 10, 11])
    expected = run(toy, two_replicas, clean, tmp_path / "b")
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_rollbacks_that_do_not_help_end(toy, one_device, tmp_path):
    bad = dict.fromkeys(range(11, 100), NAN)
    with pytest.raises(
        FloatingPointError, match="step 6 .* 3 rollbacks since .* did not help"
    ):
        run(toy, one_device, batches(bad), tmp_path, on_divergence="rollback")


def test_loss_above_the_bound_stops(toy, one_device, tmp_path):
    with pytest.raises(
        FloatingPointError,
        match=r"the loss is 1.2e\+07, above max_loss=50, at step 13 .batch 12 ",
    ):
        run(toy, one_device, batches({12: 2e3}), tmp_path, max_loss=50.0)
    assert max(list_checkpoints(tmp_path / "checkpoints")) == 10
    # The same command goes on from there if told how.
    run(
        toy,
        one_device,
        batches({12: 2e3}),
        tmp_path,
        max_loss=50.0,
        on_divergence="rollback",
    )
    assert rollbacks(tmp_path) == [[13, 10, 12]]


def test_non_finite_weights_are_not_saved(toy, one_device, tmp_path):
    with pytest.raises(FloatingPointError, match="a weight is not finite at"):
        run(
            toy,
            one_device,
            batches({}),
            tmp_path,
            rate=np.inf,
            num_train_steps=1,
        )
    assert not list_checkpoints(tmp_path / "checkpoints")


def test_float16_rolls_back(toy, one_device, tmp_path):
    data = batches({11: NAN, 6: 3e4})
    run(
        toy,
        one_device,
        data,
        tmp_path,
        loss=toy.NoisyLoss(half=True),
        dynamic_loss_scale=True,
        on_divergence="rollback",
    )
    # Batch 6 overflows at the first scale, so its step is only skipped.
    assert rollbacks(tmp_path) == [[12, 9, 11]]
    found = list_checkpoints(tmp_path / "checkpoints")
    values = read_checkpoint(found[20])
    assert values["loss_scale/scale"] == 2.0**14
    assert values["loss_scale/good_steps"] == 13


def test_float16_that_overflows_without_scale_stops(toy, one_device, tmp_path):
    data = batches(dict.fromkeys(range(100), 1e5))
    with pytest.raises(FloatingPointError, match="the gradient norm is .*16 "):
        run(
            toy,
            one_device,
            data,
            tmp_path,
            loss=toy.NoisyLoss(half=True),
            dynamic_loss_scale=True,
        )


def test_rollback_without_a_folder_is_an_error(toy, one_device):
    with pytest.raises(InputError, match="'rollback' requires run_dir"):
        run(toy, one_device, batches({}), None, on_divergence="rollback")


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


# Of the first run of updates 3 and 4; of what is then update 4, and of 1 to 4.
ROLLBACKS = [Rollback(5, 3, 4), Rollback(5, 6, 6), Rollback(5, 1, 8)]


@pytest.mark.parametrize(
    ("rollbacks", "batches"),
    [
        (ROLLBACKS[:0], [0, 1, 2, 3, 4, 5, 6]),
        (ROLLBACKS[:1], [0, 1, 2, 5, 6, 7, 8]),
        (ROLLBACKS[:2], [0, 1, 2, 5, 7, 8, 9]),
        (ROLLBACKS, [0, 9, 10, 11, 12, 13, 14]),
    ],
)
def test_skipped_batches_are_left_out(rollbacks, batches):
    assert [batch_of(update, rollbacks) for update in range(7)] == batches
    for start in range(7):
        dataset = batches_from(
            lambda first: tf.data.Dataset.range(first, 30), start, rollbacks
        )
        assert list(dataset.as_numpy_iterator())[: 7 - start] == batches[start:]


def test_without_rollbacks_the_dataset_is_as_it_was():
    dataset = tf.data.Dataset.range(10)
    assert batches_from(lambda _: dataset, 3, ()) is dataset


def test_shapes_stay_static():
    dataset = tf.data.Dataset.range(40).batch(4, drop_remainder=True)
    left = batches_from(lambda first: dataset.skip(first), 0, ROLLBACKS[:1])
    assert left.element_spec == dataset.element_spec
