import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training.schedules import polynomial_decay


def golden_tables(shared):
    path = shared("golden", "google", "schedule", "learning_rate.json")
    return json.loads(path.read_text())


def of_table(table):
    return polynomial_decay(
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


def test_graph_and_integer_types_agree(shared):
    table = golden_tables(shared)[0]
    schedule = tf.function(of_table(table))
    for step, rate in zip(table["steps"], table["rates"], strict=True):
        assert schedule(tf.constant(step, tf.int64)) == np.float32(rate)
        assert schedule(tf.constant(step, tf.int32)) == np.float32(rate)


def test_rate_drops_where_the_warmup_hands_over():
    schedule = polynomial_decay(1.0, 100, warmup_steps=10)
    assert float(schedule(9)) == pytest.approx(0.9)
    assert float(schedule(10)) == pytest.approx(0.9)
    assert float(schedule(11)) == pytest.approx(0.89)


def test_arguments_are_recorded():
    schedule = polynomial_decay(0.1, 100, warmup_steps=10)
    assert polynomial_decay(**schedule.to_dict()) == schedule


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("base_rate", -1.0),
        ("base_rate", float("nan")),
        ("total_steps", 0),
        ("warmup_steps", -1),
        ("power", 0.0),
    ],
)
def test_bad_values_are_named(name, value):
    arguments = {"base_rate": 0.1, "total_steps": 10} | {name: value}
    with pytest.raises(InputError, match=f"{name}={value}"):
        polynomial_decay(**arguments)
