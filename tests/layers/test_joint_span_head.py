import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.layers.joint_span_head import JointSpanHead

CONFIG = AlbertConfig(
    vocab_size=9,
    embedding_size=4,
    hidden_size=6,
    num_attention_heads=2,
    num_hidden_layers=1,
    intermediate_size=8,
    initializer_range=0.5,
)


@pytest.fixture
def head():
    head = JointSpanHead(CONFIG, 2, 3, dropout=0.0)
    head.build()
    rng = np.random.default_rng(0)
    for weight in head.trainable_variables:
        weight.assign_add(rng.normal(0, 0.3, weight.shape))
    return head


@pytest.fixture
def states():
    return np.random.default_rng(1).normal(size=(3, 7, 6)).astype("float32")


def in_float64(head, states, p_mask, starts):
    """The definition: every pair (state, start state) is concatenated."""
    w = {v.path: np.asarray(v, "float64") for v in head.trainable_variables}
    w = {path.removeprefix(f"{head.name}/"): value for path, value in w.items()}

    def log_softmax(scores, mask):
        scores = np.where(mask, -1e30, scores)
        scores = scores - scores.max(-1, keepdims=True)
        return scores - np.log(np.exp(scores).sum(-1, keepdims=True))

    start = log_softmax(
        (states @ w["start/kernel"])[..., 0] + w["start/bias"], p_mask
    )
    start_states = np.stack([x[s] for x, s in zip(states, starts, strict=True)])
    tiled = np.broadcast_to(start_states[:, None], states.shape)
    x = np.concatenate([states, tiled], -1)
    x = np.tanh(x @ w["end/dense/kernel"] + w["end/dense/bias"])
    x = (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)
    x = x * w["end/layer_norm/gamma"] + w["end/layer_norm/beta"]
    end = (x @ w["end/output/kernel"])[..., 0] + w["end/output/bias"]
    expected = np.einsum("bs,bsh->bh", np.exp(start), states)
    x = np.concatenate([expected, states[:, 0]], -1)
    x = np.tanh(
        x @ w["answerability/dense/kernel"] + w["answerability/dense/bias"]
    )
    return {
        "start_log_probs": start,
        "end_log_probs": log_softmax(end, p_mask),
        "is_impossible_logits": (x @ w["answerability/output/kernel"])[:, 0],
    }


def test_equals_the_definition(head, states):
    p_mask = np.zeros((3, 7), "int32")
    p_mask[1, 2:4] = 1
    starts = np.array([4, 0, 6])
    outputs = head(states, p_mask, starts)
    expected = in_float64(head, states, p_mask, starts)
    assert set(outputs) == set(expected)
    for name, value in outputs.items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-6, atol=1e-5)


def test_lists_are_the_best_in_order(head, states):
    outputs = {
        name: np.asarray(value)
        for name, value in head(states, np.zeros((3, 7))).items()
    }
    order = np.argsort(-outputs["start_log_probs"], axis=1)
    np.testing.assert_array_equal(outputs["start_top_index"], order[:, :2])
    order = np.argsort(-outputs["end_log_probs"], axis=2)[..., :3]
    np.testing.assert_array_equal(outputs["end_top_index"], order.reshape(3, 6))
    best = np.take_along_axis(outputs["end_log_probs"], order, axis=2)
    np.testing.assert_array_equal(
        outputs["end_top_log_probs"], best.reshape(3, 6)
    )


def test_a_row_without_candidates_stays_finite(head, states):
    # As in the filling of a last batch: no text, no candidates.
    p_mask = np.ones((3, 7), "int32")
    p_mask[:2] = 0
    states = tf.constant(states)
    with tf.GradientTape() as tape:
        tape.watch(states)
        outputs = head(states, p_mask, np.array([1, 2, 0]))
        loss = sum(tf.reduce_sum(value[:2]) for value in outputs.values())
    for value in outputs.values():
        assert np.all(np.isfinite(value))
    assert np.all(np.isfinite(tape.gradient(loss, states)))
