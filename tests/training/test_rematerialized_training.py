"""Rematerialization inside of the loop's graphs."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.objectives.masked_language_modeling import (
    MaskedLanguageModeling,
)


def moments(toy, config, batch, strategy, rematerialize, **settings):
    """Adam's first moments after two steps: sums of the gradients."""
    with strategy.scope():
        model = AlbertPretrainer(config, rematerialize=rematerialize)
    rng = np.random.default_rng(1)
    for variable in model.trainable_variables:
        variable.assign(rng.normal(0, 0.1, variable.shape))
    _, optimizer, _ = toy.fit(
        strategy,
        MaskedLanguageModeling(),
        lambda _: tf.data.Dataset.from_tensors(batch).repeat(),
        model=model,
        schedule=lambda step: tf.constant(1e-9),
        num_train_steps=2,
        clip_norm=0.0,
        steps_per_loop=2,
        seed=5,
        **settings,
    )
    return {
        name: slot.numpy()
        for name, slot in optimizer.slots.items()
        if name.endswith("adam_m")
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("replicas", "settings"), [(2, {}), (1, {"jit_compile": True})]
)
def test_gradients_of_micro_batches_are_the_same(
    toy,
    small_config,
    pretraining_batch,
    one_device,
    two_replicas,
    replicas,
    settings,
):
    strategy = one_device if replicas == 1 else two_replicas
    plain, again = (
        moments(
            toy,
            small_config.replace(num_hidden_layers=2),
            pretraining_batch,
            strategy,
            rematerialize,
            gradient_accumulation_steps=2,
            **settings,
        )
        for rematerialize in (False, True)
    )
    scale = max(np.abs(m).max() for m in plain.values())
    for name, value in plain.items():
        # The rounding of fused kernels, as in tests/models.
        np.testing.assert_allclose(
            again[name], value, rtol=0, atol=2e-6 * scale, err_msg=name
        )
