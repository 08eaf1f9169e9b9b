import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training.schedules import (
    CosineDecay,
    LinearDecay,
    PolynomialDecay,
    WarmupStableDecay,
)


def golden_tables(shared):
    path = shared("golden", "google", "schedule", "learning_rate.json")
    return json.loads(path.read_text())


def of_table(table):
    return PolynomialDecay(
        table["learning_rate"],
        table["num_train_steps"],
        table["num_warmup_steps"],
        table["poly_power"],
        table["start_warmup_step"],
    )


@pytest.mark.parametrize("index", range(4))
def test_rates_are_the_originals_to_the_last_bit(shared, index):
    table = golden_tables(shared)[index]
    schedule = of_table(table)
    rates = [schedule(step).numpy() for step in table["steps"]]
    np.testing.assert_array_equal(rates, np.float32(table["rates"]))


def rates(schedule, steps):
    return schedule(tf.range(steps)).numpy()


def test_line_goes_from_the_peak_to_zero_without_a_jump():
    schedule = LinearDecay(0.3, 100, warmup_steps=20)
    expected = np.interp(np.arange(110), [0, 20, 100], [0.0, 0.3, 0.0])
    np.testing.assert_allclose(rates(schedule, 110), expected, atol=1e-8)
    assert schedule(20) == np.float32(0.3)
    assert schedule(100) == 0.0
    assert LinearDecay(0.3, 100)(0) == np.float32(0.3)


@pytest.mark.parametrize(("warmup_steps", "final"), [(20, 0.0), (0, 0.1)])
def test_cosine_is_that_of_keras(warmup_steps, final):
    schedule = CosineDecay(0.3, 100, warmup_steps, final_fraction=final)
    # Keras counts the steps of the decay alone.
    theirs = keras.optimizers.schedules.CosineDecay(
        0.0 if warmup_steps else 0.3,
        100 - warmup_steps,
        alpha=final,
        warmup_target=0.3 if warmup_steps else None,
        warmup_steps=warmup_steps,
    )
    expected = [float(theirs(step)) for step in range(110)]
    np.testing.assert_allclose(rates(schedule, 110), expected, atol=1e-7)
    assert schedule(warmup_steps) == np.float32(0.3)
    assert schedule(100) == np.float32(0.3) * np.float32(final)


def test_stable_phase_is_flat_and_the_decay_a_root():
    schedule = WarmupStableDecay(0.3, 100, 20, decay_steps=40)
    found = rates(schedule, 110)
    np.testing.assert_allclose(found[:20], 0.3 * np.arange(20) / 20, rtol=1e-6)
    assert (found[20:61] == np.float32(0.3)).all()
    decay = 0.3 * (1 - np.sqrt(np.arange(40) / 40))
    np.testing.assert_allclose(found[60:100], decay, rtol=1e-5)
    assert (found[100:] == 0.0).all()


def test_rates_before_the_decay_do_not_depend_on_the_end():
    early, late, never = (
        rates(WarmupStableDecay(0.3, total, 20, decay), 90)
        for total, decay in ((100, 40), (1000, 910), (200, 0))
    )
    np.testing.assert_array_equal(early[:61], never[:61])
    assert early[61] < never[61]
    np.testing.assert_array_equal(late, never)


@pytest.mark.parametrize(
    "kind", [PolynomialDecay, LinearDecay, CosineDecay, WarmupStableDecay]
)
def test_schedules_agree_in_graphs(kind):
    schedule = kind(0.3, 100, 7)
    one_by_one = [
        tf.function(schedule)(tf.constant(step, tf.int64)) for step in range(9)
    ]
    np.testing.assert_array_equal(rates(schedule, 9), one_by_one)


def test_decay_fits_in_the_steps_after_the_warmup():
    assert WarmupStableDecay(0.1, 10, 4, decay_steps=6)(9) > 0
    with pytest.raises(InputError, match="decay_steps=7 must be at most"):
        WarmupStableDecay(0.1, 10, 4, decay_steps=7)
