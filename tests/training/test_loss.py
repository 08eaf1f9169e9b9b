import numpy as np
import pytest
import tensorflow as tf

from albert_tf.training.loss import sparse_cross_entropy


def both(labels, logits):
    """Losses and gradients: ours, and TensorFlow's in float64."""
    results = []
    weights = np.linspace(0.5, 2.0, labels.size).reshape(labels.shape)
    for dtype in ("float32", "float64"):
        x = tf.constant(logits, dtype)
        with tf.GradientTape() as tape:
            tape.watch(x)
            if dtype == "float32":
                nll, _ = sparse_cross_entropy(tf.constant(labels), x)
            else:
                nll = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, x)
            loss = tf.reduce_sum(nll * tf.constant(weights, dtype))
        results.append((nll.numpy(), tape.gradient(loss, x).numpy()))
    return results


@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0, 1e4])
def test_equals_the_definition_in_float64(scale):
    rng = np.random.default_rng(0)
    logits = (scale * rng.normal(size=(3, 5, 200))).astype("float32")
    labels = rng.integers(0, 200, (3, 5)).astype("int32")
    (nll, slope), (expected, expected_slope) = both(labels, logits)
    # Differences of float32 numbers of the logits' size.
    atol = 3e-7 * max(1.0, np.abs(logits).max())
    np.testing.assert_allclose(nll, expected, rtol=3e-7, atol=atol)
    np.testing.assert_allclose(slope, expected_slope, atol=1e-6)


def test_hits_are_exact_matches():
    logits = tf.constant([[0.0, 2.0, 1.0], [5.0, 0.0, -1.0]])
    _, hits = sparse_cross_entropy(tf.constant([1, 2]), logits)
    np.testing.assert_array_equal(hits, [1.0, 0.0])


def test_nan_stays_nan():
    nll, _ = sparse_cross_entropy(
        tf.constant([0]), tf.constant([[float("nan"), 1.0]])
    )
    assert np.isnan(nll).all()
