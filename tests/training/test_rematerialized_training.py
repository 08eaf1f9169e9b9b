"""Rematerialization inside of the loop's graphs."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.tasks.pretraining import PretrainingTask
from albert_tf.training.loop import train
from albert_tf.training.optimizers import AdamW
from albert_tf.training.training_config import TrainingConfig

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


def batches(step):
    rng = np.random.default_rng(0)

    def ids(*shape, high=40):
        return rng.integers(5, high, shape).astype("int32")

    batch = {
        "input_word_ids": ids(8, 12),
        "input_mask": np.ones([8, 12], "int32"),
        "input_type_ids": np.zeros([8, 12], "int32"),
        "masked_lm_positions": ids(8, 2, high=12),
        "masked_lm_ids": ids(8, 2),
        "masked_lm_weights": np.ones([8, 2], "float32"),
        "sentence_order_labels": ids(8) % 2,
    }
    data = tf.data.Dataset.from_tensor_slices(batch)
    return data.batch(8, drop_remainder=True).repeat()


def moments(strategy, rematerialize, **settings):
    """Adam's first moments after two steps: sums of the gradients."""
    with strategy.scope():
        model = AlbertPretrainer(CONFIG, rematerialize=rematerialize)
    rng = np.random.default_rng(1)
    for variable in model.trainable_variables:
        variable.assign(rng.normal(0, 0.1, variable.shape))
    optimizer = AdamW()
    train(
        TrainingConfig(
            total_steps=2, clip_norm=0.0, steps_per_loop=2, seed=5, **settings
        ),
        strategy,
        model,
        PretrainingTask(),
        optimizer,
        # So small that the second step is taken from the same weights.
        lambda step: tf.constant(1e-9),
        batches,
    )
    return {
        name: slot.numpy()
        for name, slot in optimizer.slots.items()
        if name.endswith("adam_m")
    }


def check(strategy, **settings):
    plain = moments(strategy, False, **settings)
    again = moments(strategy, True, **settings)
    scale = max(np.abs(m).max() for m in plain.values())
    for name, value in plain.items():
        # The rounding of fused kernels, as in tests/models.
        np.testing.assert_allclose(
            again[name], value, rtol=0, atol=2e-6 * scale, err_msg=name
        )


@pytest.mark.slow
def test_two_replicas_with_accumulation(two_replicas):
    check(two_replicas, gradient_accumulation_steps=2)


@pytest.mark.slow
def test_compiled_with_accumulation(one_device):
    check(one_device, gradient_accumulation_steps=2, jit_compile=True)
