import numpy as np
import pytest
import tensorflow as tf

from albert_tf.training.gradients import clip_by_global_norm, global_norm


def slices():
    # Row 1 twice: its sum is [3, 4], its slices have another norm.
    return tf.IndexedSlices(
        tf.constant([[1.0, 4.0], [2.0, 0.0]]),
        tf.constant([1, 1]),
        dense_shape=tf.constant([3, 2]),
    )


def test_norm_sums_the_rows_of_slices_first():
    assert global_norm([slices()]).numpy() == pytest.approx(5.0)
    assert global_norm([slices(), None, tf.constant([12.0])]).numpy() == (
        pytest.approx(13.0)
    )


def test_clipping_scales_everything_together():
    clipped, norm = clip_by_global_norm([slices(), None, tf.zeros(2)], 1.0)
    assert norm.numpy() == pytest.approx(5.0)
    np.testing.assert_allclose(clipped[0][1], [0.6, 0.8], rtol=1e-6)
    assert clipped[1] is None
    assert global_norm(clipped).numpy() == pytest.approx(1.0)


@pytest.mark.parametrize("clip_norm", [0.0, 5.0, 100.0])
def test_small_gradients_and_no_clipping_change_nothing(clip_norm):
    clipped, norm = clip_by_global_norm([slices()], clip_norm)
    np.testing.assert_array_equal(clipped[0][1], [3.0, 4.0])
    assert norm.numpy() == pytest.approx(5.0)
