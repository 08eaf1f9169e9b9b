import numpy as np
import pytest
import tensorflow as tf

from albert_tf.training.logging import read_events, read_metrics
from albert_tf.training.train_step import DynamicLossScale, clip_by_global_norm


def slices():
    # Row 1 twice: its sum is [3, 4], its slices have another norm.
    return tf.IndexedSlices(
        tf.constant([[1.0, 4.0], [2.0, 0.0]]),
        tf.constant([1, 1]),
        dense_shape=tf.constant([3, 2]),
    )


def norm_of(gradients):
    return clip_by_global_norm(gradients, 0.0)[1].numpy()


def test_norm_sums_the_rows_of_slices_first():
    assert norm_of([slices()]) == pytest.approx(5.0)
    assert norm_of([slices(), None, tf.constant([12.0])]) == (
        pytest.approx(13.0)
    )


def test_clipping_scales_everything_together():
    clipped, norm = clip_by_global_norm([slices(), None, tf.zeros(2)], 1.0)
    assert norm.numpy() == pytest.approx(5.0)
    np.testing.assert_allclose(clipped[0][1], [0.6, 0.8], rtol=1e-6)
    assert clipped[1] is None
    assert norm_of(clipped) == pytest.approx(1.0)


@pytest.mark.parametrize("clip_norm", [0.0, 5.0, 100.0])
def test_small_gradients_and_no_clipping_change_nothing(clip_norm):
    clipped, norm = clip_by_global_norm([slices()], clip_norm)
    np.testing.assert_array_equal(clipped[0][1], [3.0, 4.0])
    assert norm.numpy() == pytest.approx(5.0)


def test_grows_after_enough_good_steps_and_halves_at_once():
    scale = DynamicLossScale(initial_scale=8.0, growth_steps=3)
    seen = []
    for finite in [1, 1, 1, 1, 1, 0, 1, 1, 1]:
        scale.update(tf.constant(bool(finite)))
        seen.append(float(scale.scale))
    assert seen == [8, 8, 16, 16, 16, 8, 8, 8, 16]


def test_never_scales_down_the_loss():
    scale = DynamicLossScale(initial_scale=2.0)
    for _ in range(3):
        scale.update(tf.constant(False))
    assert scale.scale == 1.0


def details(run_dir):
    """(name, step) -> value of what TensorBoard alone has."""
    (path,) = run_dir.glob("tensorboard/train/*.tfevents.*")
    return {
        (value.tag, event.step): value.simple_value
        for event in read_events(path)
        for value in event.summary.value
        if value.tag.startswith(("update_norm/", "trust_ratio/"))
    }


@pytest.fixture(scope="module")
def one(toy, tmp_path_factory):
    folder = tmp_path_factory.mktemp("one")
    strategy = toy.make_strategy("one_device")
    model, *_ = toy.run(
        strategy, num_train_steps=6, log_steps=1, run_dir=folder
    )
    return folder, toy.weights(model)


def test_tensorboard_has_a_norm_and_a_ratio_of_each_variable(one):
    names = {name for name, _ in details(one[0])}
    assert names == {
        "update_norm/table/embeddings",
        "update_norm/dense/kernel",
        "update_norm/dense/bias",
        "update_norm/layer_norm/gamma",
        "update_norm/layer_norm/beta",
        # Not of what is excluded, nor of what the loss does not depend on.
        "trust_ratio/table/embeddings",
        "trust_ratio/dense/kernel",
    }
    assert {step for _, step in details(one[0])} == set(range(1, 7))


def test_nothing_else_has_them(one, toy, one_device, tmp_path, capsys):
    lines = read_metrics(one[0])
    assert not any("/" in name for line in lines for name in line["values"])
    model, *_ = toy.run(
        one_device, num_train_steps=6, log_update_norms=False, run_dir=tmp_path
    )
    assert not details(tmp_path)
    for name, weight in toy.weights(model).items():
        np.testing.assert_array_equal(weight, one[1][name])


@pytest.mark.parametrize(
    ("replicas", "settings"),
    [(2, {"gradient_accumulation_steps": 3}), (1, {"jit_compile": True})],
)
def test_replicas_and_xla_give_their_means_over_the_steps(
    toy, one, one_device, two_replicas, tmp_path, capsys, replicas, settings
):
    strategy = two_replicas if replicas > 1 else one_device
    toy.run(
        strategy, num_train_steps=6, log_steps=3, run_dir=tmp_path, **settings
    )
    each = details(one[0])
    means = {
        (name, last): np.mean([each[name, last - k] for k in range(3)])
        for name, last in each
        if last in (3, 6)
    }
    assert details(tmp_path) == pytest.approx(means, rel=1e-4)
    assert "update_norm/" not in capsys.readouterr().err
