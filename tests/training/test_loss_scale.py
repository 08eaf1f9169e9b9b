import tensorflow as tf

from albert_tf.training.loss_scale import DynamicLossScale


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
