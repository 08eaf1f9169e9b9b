import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.training.gradients import clip_by_global_norm
from albert_tf.training.optimizers import AdamW, Lamb

GOLDEN = {
    "lamb_plain": Lamb,
    "adamw_plain": AdamW,
    "lamb_no_warmup_power2": Lamb,
}


class Golden:
    """One of the recorded runs of the original's optimizers."""

    def __init__(self, path):
        data = np.load(path)
        self.names = [
            key.removeprefix("initial/")
            for key in data.files
            if key.startswith("initial/")
        ]
        self._data = data

    def __getitem__(self, key):
        return self._data[key]

    def all(self, kind):
        return [self._data[f"{kind}/{name}"] for name in self.names]

    def variables(self):
        return [
            tf.Variable(self[f"initial/{name}"], name=name)
            for name in self.names
        ]


def largest_difference(variables, expected):
    return max(
        np.abs(v.numpy() - e).max()
        for v, e in zip(variables, expected, strict=True)
    )


@pytest.mark.parametrize("name", GOLDEN)
def test_ten_steps_of_the_original(shared, name):
    golden = Golden(shared("golden", "google", "optimizer", f"{name}.npz"))
    variables = golden.variables()
    optimizer = GOLDEN[name]()
    optimizer.build(variables)
    for step in range(1, 11):
        gradients = [tf.constant(g) for g in golden.all(f"gradient/{step}")]
        clipped, norm = clip_by_global_norm(gradients, 1.0)
        np.testing.assert_allclose(
            norm, golden[f"global_norm/{step}"], rtol=1e-6
        )
        optimizer.apply(clipped, golden[f"learning_rate/{step}"])
        difference = largest_difference(
            variables, golden.all(f"variable/{step}")
        )
        assert difference < 5e-7, (step, difference)
    for slot in ("adam_m", "adam_v"):
        slots = [optimizer.slots[f"{n}/{slot}"] for n in golden.names]
        assert largest_difference(slots, golden.all(slot)) < 1e-7


def test_lamb_in_replicas_is_lamb_on_one_device(shared, two_replicas):
    golden = Golden(shared("golden", "google", "optimizer", "lamb_plain.npz"))
    optimizer = Lamb()
    with two_replicas.scope():
        variables = golden.variables()
        optimizer.build(variables)

    @tf.function
    def step(gradients, rate):
        two_replicas.run(optimizer.apply, args=(gradients, rate))

    for index in range(1, 11):
        gradients = [tf.constant(g) for g in golden.all(f"gradient/{index}")]
        clipped, _ = clip_by_global_norm(gradients, 1.0)
        step(clipped, tf.constant(golden[f"learning_rate/{index}"]))
    copies = zip(*[v.values for v in variables], strict=True)
    for variables_of_device in copies:
        assert (
            largest_difference(variables_of_device, golden.all("variable/10"))
            < 5e-7
        )


def test_exclusion_searches_the_name(shared):
    names = Golden(
        shared("golden", "google", "optimizer", "lamb_plain.npz")
    ).names
    assert {n for n in names if Lamb().is_excluded(n)} == {
        "dense/bias",
        "block/LayerNorm/gamma",
        "block/LayerNorm/beta",
        "other/layer_norm/scale",
        "cls/seq_relationship/output_bias",
        "unbiased/kernel",
        "MyLayerNormalizer/kernel",
    }


def test_keras_variables_go_by_their_path():
    norm = keras.layers.LayerNormalization(name="layer_norm")
    model = keras.Sequential([norm], name="encoder")
    model.build((None, 3))
    optimizer = Lamb()
    optimizer.build(model.trainable_variables)
    assert set(optimizer.slots) == {
        f"{variable.path}/{slot}"
        for variable in model.trainable_variables
        for slot in ("adam_m", "adam_v")
    }
    assert all("layer_norm" in name for name in optimizer.slots)


def test_variable_without_gradient_is_left_alone():
    used, unused = tf.Variable([1.0, 2.0], name="a"), tf.Variable(3.0, name="b")
    optimizer = AdamW()
    optimizer.build([used, unused])
    optimizer.apply([tf.constant([1.0, 1.0]), None], 0.1)
    assert unused.numpy() == 3.0
    assert (used.numpy() < [1.0, 2.0]).all()


def test_false_condition_changes_nothing():
    variable = tf.Variable([1.0, 2.0], name="a")
    optimizer = Lamb()
    optimizer.build([variable])
    nan = tf.constant([float("nan"), 1.0])
    optimizer.apply([nan], 0.1, condition=tf.constant(False))
    np.testing.assert_array_equal(variable, [1.0, 2.0])
    for slot in optimizer.slots.values():
        np.testing.assert_array_equal(slot, [0.0, 0.0])
    optimizer.apply([tf.ones(2)], 0.1, condition=tf.constant(True))
    assert (variable.numpy() < [1.0, 2.0]).all()


def test_only_float32_is_optimized():
    variable = tf.Variable([1.0], dtype=tf.bfloat16, name="half")
    with pytest.raises(ValueError, match="'half' is bfloat16"):
        AdamW().build([variable])


def test_names_must_differ():
    twins = [tf.Variable(1.0, name="twin") for _ in range(2)]
    with pytest.raises(ValueError, match="'twin'"):
        AdamW().build(twins)


def test_settings_are_recorded():
    settings = Lamb(weight_decay=0.1).to_dict()
    assert settings.pop("name") == "lamb"
    assert Lamb(**settings).to_dict() == settings | {"name": "lamb"}
