import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.layers.dropout import Dropout, dropout_seeds


@pytest.fixture(scope="module")
def ones():
    return tf.ones((40, 50))


def masks(ones, seed, rate=0.25, count=2):
    layers = [Dropout(rate) for _ in range(count)]
    with dropout_seeds(tf.constant(seed, "int32")):
        return [layer(ones, training=True).numpy() for layer in layers]


def test_masks_are_a_function_of_the_seed(ones):
    first, second = masks(ones, [1, 2])
    again, _ = masks(ones, [1, 2])
    other, _ = masks(ones, [1, 3])
    np.testing.assert_array_equal(first, again)
    assert np.any(first != second)
    assert np.any(first != other)


def test_rate_and_scale(ones):
    (dropped,) = masks(ones, [5, 6], rate=0.25, count=1)
    kept = dropped != 0
    np.testing.assert_allclose(dropped[kept], 1 / 0.75, rtol=1e-6)
    # 2000 draws: the share has a standard deviation of 0.0097.
    assert abs(kept.mean() - 0.75) < 4 * 0.0097


def test_seeds_work_in_a_graph(ones):
    layer = Dropout(0.5)

    @tf.function
    def apply(seed):
        with dropout_seeds(seed):
            return layer(ones, training=True)

    one = apply(tf.constant([1, 2])).numpy()
    np.testing.assert_array_equal(one, apply(tf.constant([1, 2])))
    assert np.any(one != apply(tf.constant([1, 4])).numpy())
    with dropout_seeds(tf.constant([1, 2])):
        np.testing.assert_array_equal(one, layer(ones, training=True))


def test_without_seeds_masks_differ(ones):
    keras.utils.set_random_seed(1)
    layer = Dropout(0.5)
    first = layer(ones, training=True).numpy()
    assert np.any(first != layer(ones, training=True).numpy())


def test_inputs_are_returned_without_dropout(ones):
    layer = Dropout(0.5)
    assert layer(ones, training=False) is ones
    assert Dropout(0.0)(ones, training=True) is ones
    assert Dropout(0.0).variables == []
