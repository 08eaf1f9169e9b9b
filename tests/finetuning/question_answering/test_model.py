import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.finetuning.question_answering.joint_span_head import (
    JointSpanHead,
)
from albert_tf.finetuning.question_answering.model import (
    AlbertQuestionAnswering,
)


@pytest.fixture
def joint_batch(batch):
    # [CLS] and the second segment are candidates.
    p_mask = 1 - batch["input_type_ids"]
    p_mask[:, 0] = 0
    return {**batch, "p_mask": p_mask}


def paths(model):
    assert not any("pooler" in v.path for v in model.trainable_variables)
    return {v.path for v in model.trainable_variables} - {
        v.path for v in model.encoder.trainable_variables
    }


def test_v1_contract(config, batch):
    model = AlbertQuestionAnswering(config, "v1")
    assert paths(model) == {"span_head/kernel", "span_head/bias"}
    outputs = model(batch)
    assert set(outputs) == {"start_logits", "end_logits"}
    for value in outputs.values():
        assert value.shape == (4, 12)
    # There is no dropout before it, so training changes nothing.
    again = model(batch, training=True)
    np.testing.assert_array_equal(again["end_logits"], outputs["end_logits"])


def test_joint_contract(config, joint_batch):
    model = AlbertQuestionAnswering(config, "joint", start_n_top=3, end_n_top=2)
    assert paths(model) == {
        f"joint_span_head/{name}"
        for name in (
            "start/kernel",
            "start/bias",
            "end/dense/kernel",
            "end/dense/bias",
            "end/layer_norm/gamma",
            "end/layer_norm/beta",
            "end/output/kernel",
            "end/output/bias",
            "answerability/dense/kernel",
            "answerability/dense/bias",
            "answerability/output/kernel",
        )
    }
    outputs = model(joint_batch)
    assert {name: tuple(x.shape) for name, x in outputs.items()} == {
        "start_log_probs": (4, 12),
        "start_top_log_probs": (4, 3),
        "start_top_index": (4, 3),
        "end_log_probs": (4, 3, 12),
        "end_top_log_probs": (4, 6),
        "end_top_index": (4, 6),
        "is_impossible_logits": (4,),
    }


def test_true_starts_give_the_same_ends_as_found_starts(config, joint_batch):
    model = AlbertQuestionAnswering(config, "joint", start_n_top=2)
    found = model(joint_batch)
    for k in range(2):
        starts = np.asarray(found["start_top_index"])[:, k]
        told = model({**joint_batch, "start_positions": starts})
        assert set(told) == {
            "start_log_probs",
            "end_log_probs",
            "is_impossible_logits",
        }
        np.testing.assert_allclose(
            told["end_log_probs"], found["end_log_probs"][:, k], atol=1e-5
        )


def test_only_answerability_has_dropout(config, joint_batch):
    model = AlbertQuestionAnswering(config, "joint", dropout=0.5)
    calm, noisy = (model(joint_batch, training=on) for on in (False, True))
    for name, value in calm.items():
        change = np.abs(np.asarray(value) - np.asarray(noisy[name])).max()
        assert (change > 1e-3) == (name == "is_impossible_logits"), name


def test_arguments_are_saved_with_the_model(config, joint_batch, tmp_path):
    model = AlbertQuestionAnswering(
        config, "joint", dropout=0.3, start_n_top=2, end_n_top=3
    )
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.get_config() == model.get_config()
    for name, value in model(joint_batch).items():
        np.testing.assert_array_equal(loaded(joint_batch)[name], value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"head": "v2"}, "head='v2' must be one of v1, joint"),
        ({"head": "joint", "start_n_top": 0}, "start_n_top=0 must be"),
        ({"head": "joint", "end_n_top": 1.5}, "end_n_top=1.5 must be"),
        ({"head": "joint", "dropout": 1}, r"dropout=1 must be in \[0, 1\)"),
    ],
)
def test_bad_arguments(config, arguments, message):
    with pytest.raises(InputError, match=f"AlbertQuestionAnswering: {message}"):
        AlbertQuestionAnswering(config, **arguments)


def test_bad_inputs(config, batch, joint_batch):
    with pytest.raises(ValueError, match="start_positions; missing: p_mask"):
        AlbertQuestionAnswering(config, "joint")(batch)
    with pytest.raises(ValueError, match="unknown: p_mask"):
        AlbertQuestionAnswering(config, "v1")(joint_batch)
    model = AlbertQuestionAnswering(config, "joint", end_n_top=13)
    with pytest.raises(
        ValueError, match="has length 12, but must have at least end_n_top=13"
    ):
        model(joint_batch)


@pytest.fixture
def head(config):
    config = config.replace(hidden_size=6, num_attention_heads=2)
    head = JointSpanHead(config, 2, 3, dropout=0.0)
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


def test_head_equals_its_definition(head, states):
    p_mask = np.zeros((3, 7), "int32")
    p_mask[1, 2:4] = 1
    starts = np.array([4, 0, 6])
    outputs = head(states, p_mask, starts)
    expected = in_float64(head, states, p_mask, starts)
    assert set(outputs) == set(expected)
    for name, value in outputs.items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-6, atol=1e-5)


def test_candidates_are_the_best_in_order(head, states):
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
    # As in the padding rows of the last batch.
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
