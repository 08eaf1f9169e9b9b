import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training.checkpoint_files import read_checkpoint
from albert_tf.training.distribution import make_strategy


def difference(a, b):
    assert a.keys() == b.keys()
    return max(np.abs(a[name] - b[name]).max() for name in a)


@pytest.fixture(scope="module")
def reference(toy):
    """20 steps on one device, without accumulation or dropout."""
    model, optimizer, result = toy.run(make_strategy("one_device"))
    return toy.weights(model), optimizer.slots, result


def test_training_learns_and_clips(toy, reference):
    weights, _, result = reference
    assert result.steps == 20
    assert not result.interrupted
    fresh = toy.weights(toy.Toy())
    assert difference(weights, fresh) > 0.1
    # What has no gradient is not even decayed.
    (unused,) = [path for path in fresh if path.endswith("unused/kernel")]
    np.testing.assert_array_equal(fresh[unused], weights[unused])
    assert result.metrics["gradient_norm"] > 1.0
    assert result.metrics["learning_rate"] == pytest.approx(0.02 * 21 / 40)
    assert result.metrics["loss"] == pytest.approx(
        result.metrics["token_loss"] + result.metrics["parity_loss"], rel=1e-2
    )
    assert result.metrics["examples_per_second"] > 0
    assert result.metrics["tokens_per_second"] > 0


@pytest.mark.parametrize(("replicas", "accumulation"), [(1, 4), (2, 3)])
def test_neither_replicas_nor_accumulation_change_the_weights(
    toy, reference, one_device, two_replicas, replicas, accumulation
):
    strategy = one_device if replicas == 1 else two_replicas
    model, optimizer, result = toy.run(
        strategy, gradient_accumulation_steps=accumulation
    )
    weights, slots, reference_result = reference
    assert difference(toy.weights(model), weights) < 1e-6
    for name, slot in optimizer.slots.items():
        np.testing.assert_allclose(slot, slots[name], atol=1e-6)
    for name in ("loss", "token_loss", "gradient_norm"):
        assert result.metrics[name] == pytest.approx(
            reference_result.metrics[name], rel=1e-5
        )


def test_same_slices_get_the_same_dropout(
    toy, reference, one_device, two_replicas
):
    split, *_ = toy.run(two_replicas, rate=0.3)
    accumulated, *_ = toy.run(
        one_device, rate=0.3, gradient_accumulation_steps=2
    )
    assert difference(toy.weights(split), toy.weights(accumulated)) < 1e-6
    assert difference(toy.weights(split), reference[0]) > 1e-3


def test_steps_per_loop_does_not_matter(toy, reference, one_device):
    model, *_ = toy.run(one_device, steps_per_loop=1)
    assert difference(toy.weights(model), reference[0]) == 0.0


def test_xla_on_several_replicas_is_an_error(toy, two_replicas):
    with pytest.raises(InputError, match="jit_compile=True works on one"):
        toy.run(two_replicas, jit_compile=True)


def test_every_slice_of_a_step_has_its_own_seed(toy, two_replicas):
    _, result = toy.train_one_weight(
        two_replicas,
        toy.SeedLoss(),
        gradient_accumulation_steps=2,
        num_train_steps=1,
    )
    # Four equal numbers would have (sum / 4)^2 as the mean of their squares.
    mean = result.metrics["loss"] / 4
    assert result.metrics["square"] > mean**2 + 1e-3


def test_a_step_repeats_only_under_the_same_seed(toy, one_device):
    losses = [
        toy.train_one_weight(
            one_device, toy.SeedLoss(), num_train_steps=steps, seed=seed
        )[1].metrics["loss"]
        for steps, seed in [(1, 0), (1, 0), (2, 0), (1, 1)]
    ]
    assert losses[0] == losses[1]
    assert len(set(losses)) == 3


@pytest.mark.parametrize(
    ("count", "kept", "message"),
    [
        (3, None, "have 3 batches, fewer than the 8 steps to do"),
        (1, False, "have 0 batches"),
        # TensorFlow does not know the number of batches in advance.
        (3, True, "between step 2 and 4"),
    ],
)
def test_data_that_end_early_are_an_error(
    toy, one_device, count, kept, message
):
    data = toy.values([1.0] * count)
    if kept is not None:
        data = data.filter(lambda batch: kept)
    with pytest.raises(InputError, match=message):
        toy.train_one_weight(one_device, toy.StepLoss(), data, log_steps=2)


def test_dataset_is_built_only_once(toy, one_device):
    """Tracing a pipeline takes seconds."""
    starts = []

    def data(first):
        starts.append(first)
        return toy.ones()

    toy.train_one_weight(one_device, toy.SeedLoss(), data, num_train_steps=2)
    assert starts == [0]


def test_update_k_has_the_rate_of_step_k(toy, one_device):
    model, result = toy.train_one_weight(
        one_device, toy.StepLoss(), toy.values([1.0, 1.0]), num_train_steps=2
    )
    weight, m, v = 1.0, 0.0, 0.0
    for step in range(2):
        m, v = 0.9 * m + 0.1 / 3**0.5, 0.999 * v + 0.001 / 3
        rate = 0.1 * (1 - step / 100)
        weight -= rate * (m / (v**0.5 + 1e-6) + 0.01 * weight)
    np.testing.assert_allclose(model.weight, [weight] * 3, rtol=1e-5)
    assert result.metrics["learning_rate"] == pytest.approx(0.099)


def test_frozen_model_is_an_error(toy, one_device):
    with one_device.scope():
        model = toy.OneWeight()
    model.trainable = False
    with pytest.raises(InputError, match="no trainable variable"):
        toy.train_one_weight(one_device, toy.StepLoss(), model=model)


def test_model_created_outside_the_strategy_is_an_error(toy, two_replicas):
    with pytest.raises(ValueError, match="create the model under"):
        toy.train_one_weight(
            two_replicas, toy.StepLoss(), model=toy.OneWeight()
        )


def test_loss_without_variables_is_an_error(toy, one_device):
    class Constant(toy.StepLoss):
        def __call__(self, model, batch, normalizers, seed):
            return tf.reduce_sum(batch["x"]), {}

    with pytest.raises(InputError, match="depends on no trainable variable"):
        toy.train_one_weight(one_device, Constant())


@pytest.fixture
def float16():
    keras.config.set_dtype_policy("mixed_float16")
    yield
    keras.config.set_dtype_policy("float32")


@pytest.mark.usefixtures("float16")
def test_float16_trains_like_float32_and_resumes(
    toy, reference, one_device, tmp_path
):
    for num_train_steps in (12, 20):
        model, _, result = toy.run(
            one_device,
            dynamic_loss_scale=True,
            num_train_steps=num_train_steps,
            run_dir=tmp_path,
        )
    assert result.steps == 20
    assert result.metrics["loss_scale"] == 2.0**15
    assert 0.5 < result.metrics["gradient_norm"] < 5
    assert difference(toy.weights(model), reference[0]) < 0.02
    values = read_checkpoint(tmp_path / "checkpoints" / "step-00000020")
    assert values["loss_scale/good_steps"] == 20


@pytest.mark.usefixtures("float16")
def test_float16_without_loss_scale_is_an_error(toy, one_device):
    with pytest.raises(InputError, match="requires dynamic_loss_scale=True"):
        toy.run(one_device)
