"""What is computed in which precision, and what half precision costs."""

import collections

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.tasks.pretraining import PretrainingTask
from albert_tf.training.loss_scale import DynamicLossScale
from albert_tf.training.optimizers import AdamW
from albert_tf.training.replica_step import ReplicaStep
from albert_tf.training.window import build_window

HALVES = {"mixed_bfloat16": tf.bfloat16, "mixed_float16": tf.float16}
CONFIG = AlbertConfig(
    vocab_size=40,
    embedding_size=8,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=16,
    initializer_range=0.1,
    hidden_dropout_prob=0.1,
    attention_probs_dropout_prob=0.1,
)


def batch():
    rng = np.random.default_rng(0)

    def ids(*shape, high=40):
        return tf.constant(rng.integers(5, high, shape), tf.int32)

    return {
        "input_word_ids": ids(8, 12),
        "input_mask": tf.ones([8, 12], tf.int32),
        "input_type_ids": tf.zeros([8, 12], tf.int32),
        "masked_lm_positions": ids(8, 2, high=12),
        "masked_lm_ids": ids(8, 2),
        "masked_lm_weights": tf.ones([8, 2]),
        "sentence_order_labels": ids(8) % 2,
    }


@pytest.fixture
def policy(request):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(request.param)
    yield request.param
    keras.config.set_dtype_policy(before)


def dtypes_of_a_step():
    """Operation type -> dtypes of its results, forward and backward."""
    model, task = AlbertPretrainer(CONFIG), PretrainingTask()

    @tf.function
    def step(inputs, seed):
        normalizers = task.normalizers(inputs)
        with tf.GradientTape() as tape:
            loss, metrics = task.loss(model, inputs, normalizers, seed)
        assert {x.dtype for x in metrics.values()} == {tf.float32}
        return loss, tape.gradient(loss, model.trainable_variables)

    found = collections.defaultdict(collections.Counter)
    arguments = (batch(), tf.constant([1, 2]))
    graph = step.get_concrete_function(*arguments).graph
    for op in graph.get_operations():
        for output in op.outputs:
            found[op.type][output.dtype] += 1
    return found, step(*arguments), model


@pytest.mark.parametrize("policy", HALVES, indirect=True)
def test_float32_islands(policy):
    half = HALVES[policy]
    found, (loss, gradients), model = dtypes_of_a_step()
    # LayerNorm, softmax of attention and of the loss, and their gradients.
    for kind in ("Rsqrt", "RsqrtGrad", "Mean", "Square", "Softmax", "Log"):
        assert set(found[kind]) == {tf.float32}, kind
    assert loss.dtype == tf.float32
    # Weights, and so what the optimizer adds up, are float32.
    assert {v.dtype for v in model.weights if "seed" not in v.path} == {
        "float32"
    }
    assert {g.dtype for g in gradients} == {tf.float32}
    # All large products are in half precision: the sentence-order head's
    # (one forward, two backward) and no others are float32.
    assert found["MatMul"][tf.float32] == 3
    assert found["MatMul"][half] > 20
    assert set(found["BatchMatMulV2"]) == {half}
    # The activations between the islands are, too: the GELU of two blocks and
    # of the head, and the pooler.
    assert set(found["Tanh"]) == {half}


@pytest.mark.parametrize("policy", ["float32"], indirect=True)
def test_float32_computes_nothing_in_half(policy):
    found, _, _ = dtypes_of_a_step()
    for kind, dtypes in found.items():
        assert not set(dtypes) & set(HALVES.values()), kind


@pytest.mark.parametrize("policy", ["mixed_float16"], indirect=True)
def test_loss_scale_recovers_from_an_overflow(policy, one_device):
    """A scale far too high is halved until steps count; then it grows."""
    start = 2.0**30
    with one_device.scope():
        model = AlbertPretrainer(CONFIG)
        optimizer = AdamW()
        optimizer.build(model.trainable_variables)
        loss_scale = DynamicLossScale(initial_scale=start, growth_steps=5)
    run = build_window(
        one_device,
        ReplicaStep(
            model,
            PretrainingTask(),
            optimizer,
            slice_size=8,
            skip_overflow=True,
        ),
        lambda step: tf.constant(1e-2),
        seed=1,
        loss_scale=loss_scale,
    )
    iterator = iter(tf.data.Dataset.from_tensors(batch()).repeat())
    bias = model.mlm_head.output_bias
    scales, losses, moved = [start], [], []
    for step in range(40):
        before = bias.numpy()
        rows = run(iterator, tf.constant(step, tf.int64), tf.ones([], tf.int64))
        losses.append(float(rows[0, 0, 0]))
        moved.append(bool(np.any(bias.numpy() != before)))
        scales.append(float(loss_scale.scale))
    skipped = moved.index(True)
    # A gradient of 2^30 times its size is beyond float16's 65504.
    assert 3 < skipped < 25
    assert scales[: skipped + 1] == [start / 2**n for n in range(skipped + 1)]
    # Steps count from here on, save where the scale is too much once more; five
    # of them in a row double it.
    fell = np.diff(scales) < 0
    np.testing.assert_array_equal(np.logical_not(moved), fell)
    assert np.any(np.diff(scales[skipped:]) > 0)
    assert np.all(np.isfinite(losses))
    assert losses[-1] < 0.9 * losses[0]
