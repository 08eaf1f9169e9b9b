"""Precision of each operation, and dynamic loss scaling."""

import collections

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.objectives.masked_language_modeling import MaskedLanguageModeling
from albert_tf.training.config import TrainingConfig
from albert_tf.training.loss_scale import DynamicLossScale
from albert_tf.training.optimizers import AdamW
from albert_tf.training.train_step import TrainStep, make_train_loop

HALVES = {"mixed_bfloat16": tf.bfloat16, "mixed_float16": tf.float16}


@pytest.fixture
def policy(request):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(request.param)
    yield request.param
    keras.config.set_dtype_policy(before)


def dtypes_of_a_step(config, batch):
    """Traces a step; returns operation type -> dtypes of its results."""
    model, loss_fn = AlbertPretrainer(config), MaskedLanguageModeling()

    @tf.function
    def step(inputs, seed):
        normalizers = loss_fn.normalizers(inputs)
        with tf.GradientTape() as tape:
            loss, metrics = loss_fn(model, inputs, normalizers, seed)
        assert {x.dtype for x in metrics.values()} == {tf.float32}
        return loss, tape.gradient(loss, model.trainable_variables)

    found = collections.defaultdict(collections.Counter)
    batch = {name: tf.constant(x) for name, x in batch.items()}
    traced = step.get_concrete_function(batch, tf.constant([1, 2]))
    graph = traced.graph
    for op in graph.get_operations():
        for output in op.outputs:
            found[op.type][output.dtype] += 1
    # GELU and LayerNorm are compiled functions.
    for function in graph.as_graph_def().library.function:
        for node in function.node_def:
            if node.attr["T"].type:
                found[node.op][tf.as_dtype(node.attr["T"].type)] += 1
    return found, traced.structured_outputs, model


@pytest.mark.parametrize(
    "policy",
    ["mixed_bfloat16", pytest.param("mixed_float16", marks=pytest.mark.long)],
    indirect=True,
)
def test_float32_islands(policy, small_config, pretraining_batch):
    half = HALVES[policy]
    found, (loss, gradients), model = dtypes_of_a_step(
        small_config, pretraining_batch
    )
    # LayerNorm, softmax of attention and of the loss, and their gradients.
    for kind in ("Rsqrt", "Mean", "Square", "Softmax", "Log"):
        assert set(found[kind]) == {tf.float32}, kind
    assert loss.dtype == tf.float32
    # Weights and gradients are float32.
    assert {v.dtype for v in model.weights if "seed" not in v.path} == {
        "float32"
    }
    assert {g.dtype for g in gradients} == {tf.float32}
    # All large products are in half precision: the logits of words and of the
    # sentence order (one forward, two backward) and no others are float32.
    assert found["MatMul"][tf.float32] == 6
    assert found["MatMul"][half] > 15
    assert set(found["BatchMatMulV2"]) == {half}
    # GELU is computed in float32, the pooler in half precision.
    assert set(found["Tanh"]) == {half, tf.float32}


@pytest.mark.long
@pytest.mark.parametrize("policy", ["mixed_float16"], indirect=True)
def test_loss_scale_recovers_from_an_overflow(
    policy, one_device, small_config, pretraining_batch
):
    """A scale that is too high is halved until steps succeed; then it grows."""
    start = 2.0**30
    with one_device.scope():
        model = AlbertPretrainer(small_config)
        optimizer = AdamW()
        optimizer.build(model.trainable_variables)
        loss_scale = DynamicLossScale(initial_scale=start, growth_steps=5)
    run = make_train_loop(
        one_device,
        TrainStep(
            TrainingConfig(num_train_steps=40, seed=1),
            model,
            MaskedLanguageModeling(),
            optimizer,
            micro_batch_size=8,
            loss_scale=loss_scale,
        ),
        lambda step: tf.constant(1e-2),
    )
    iterator = iter(tf.data.Dataset.from_tensors(pretraining_batch).repeat())
    bias = model.mlm_head.output_bias
    scales, losses, moved = [start], [], []
    for step in range(40):
        before = bias.numpy()
        rows, _ = run(iterator, tf.constant(step), tf.constant(1))
        losses.append(float(rows[0, 0, 0]))
        moved.append(bool(np.any(bias.numpy() != before)))
        scales.append(float(loss_scale.scale))
    skipped = moved.index(True)
    # A gradient of 2^30 times its size is beyond float16's 65504.
    assert 3 < skipped < 25
    assert scales[: skipped + 1] == [start / 2**n for n in range(skipped + 1)]
    # From here on steps succeed, unless the scale has grown too high again.
    # Five of them in a row double it.
    fell = np.diff(scales) < 0
    np.testing.assert_array_equal(np.logical_not(moved), fell)
    assert np.any(np.diff(scales[skipped:]) > 0)
    assert np.all(np.isfinite(losses))
    assert losses[-1] < 0.9 * losses[0]
