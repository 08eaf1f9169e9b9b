"""Runs that diverge, and batches that are skipped."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training.checkpoint_files import (
    list_checkpoints,
    read_checkpoint,
)
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
            **settings,
        },
    )
    slots = optimizer.slots.values()
    return [model.weight.numpy(), *(slot.numpy() for slot in slots)]


def skipped(run_dir):
    found = list_checkpoints(run_dir / "checkpoints")
    values = read_checkpoint(found[max(found)])
    return values["skipped_batches"].tolist()


@pytest.fixture(scope="module")
def expected(toy, tmp_path_factory):
    """A run whose data never had batches 9 to 11."""
    folder = tmp_path_factory.mktemp("clean")
    strategy = tf.distribute.OneDeviceStrategy("/CPU:0")
    return run(toy, strategy, batches({}, removed=[9, 10, 11]), folder)


def assert_same(found, expected):
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_message_says_how_to_go_on(toy, one_device, tmp_path, expected):
    data = batches({11: NAN})
    with pytest.raises(FloatingPointError) as error:
        run(toy, one_device, data, tmp_path, save_checkpoints_steps=9)
    assert str(error.value) == (
        "the loss is nan at step 12 (batch 11 of the data, from 0: examples 22 "
        "to 23 in the order of training); the last checkpoint is of step 9. To "
        "go on, skip the batches that led here with "
        "--skip_batches=9-11; or start again with a lower learning rate"
    )
    found = run(toy, one_device, data, tmp_path, skip_batches="9-11")
    assert_same(found, expected)
    assert skipped(tmp_path) == [[9, 11]]
    lines = read_metrics(tmp_path)
    assert all(x["values"]["loss"] is not None for x in lines)


def test_killed_and_resumed_run_that_skips_batches_is_the_same(
    toy, one_device, tmp_path, expected
):
    def killed():
        raise KeyboardInterrupt

    # The range is given once, and again; later it is in the checkpoint.
    for step, given in ((4, "9-11"), (8, "9-11"), (16, "")):
        with pytest.raises(KeyboardInterrupt):
            run(
                toy,
                one_device,
                batches({11: NAN}),
                tmp_path,
                evaluate=killed,
                eval_steps=step,
                save_checkpoints_steps=2,
                skip_batches=given,
            )
    found = run(toy, one_device, batches({11: NAN}), tmp_path)
    assert_same(found, expected)


def test_batches_trained_on_cannot_be_skipped(toy, one_device, tmp_path):
    run(toy, one_device, batches({}), tmp_path, num_train_steps=10)
    with pytest.raises(
        InputError, match="skip_batches=9-11: the checkpoint of step 10 was"
    ):
        run(toy, one_device, batches({}), tmp_path, skip_batches="9-11")


def test_loss_above_the_bound_stops(toy, one_device, tmp_path):
    with pytest.raises(
        FloatingPointError,
        match=r"the loss is 1.2e\+07, above max_loss=50, at step 13 .batch 12 ",
    ):
        run(toy, one_device, batches({12: 2e3}), tmp_path, max_loss=50.0)
    assert max(list_checkpoints(tmp_path / "checkpoints")) == 10


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
    rows[0, 0, 0] = np.inf
    assert find_divergence(rows) == (0, "the loss is inf")


RANGES = [(3, 4), (6, 6), (1, 8)]


@pytest.mark.parametrize(
    ("ranges", "batches"),
    [
        (RANGES[:0], [0, 1, 2, 3, 4, 5, 6]),
        (RANGES[:1], [0, 1, 2, 5, 6, 7, 8]),
        (RANGES[:2], [0, 1, 2, 5, 7, 8, 9]),
        (RANGES, [0, 9, 10, 11, 12, 13, 14]),
    ],
)
def test_ranges_are_left_out(ranges, batches):
    assert [batch_of(update, ranges) for update in range(7)] == batches
    for start in range(7):
        dataset = batches_from(
            lambda first: tf.data.Dataset.range(first, 30), start, ranges
        )
        assert list(dataset.as_numpy_iterator())[: 7 - start] == batches[start:]


def test_shapes_stay_static():
    dataset = tf.data.Dataset.range(40).batch(4, drop_remainder=True)
    left = batches_from(lambda first: dataset.skip(first), 0, RANGES[:1])
    assert left.element_spec == dataset.element_spec


def test_a_long_range_is_no_loop():
    assert batch_of(7, [(3, 10**12)]) == 10**12 + 5
