import numpy as np
import pytest
import tensorflow as tf
from architectures import SMALL

from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.training.layerwise_rates import layerwise_rates
from albert_tf.training.loss_scale import DynamicLossScale
from albert_tf.training.optimizers import AdamW, Lamb, clip_by_global_norm

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


def gradients_of(step):
    rng = np.random.default_rng(step)
    return [
        rng.normal(size=x.shape).astype(np.float32) for x in dense_and_bias()
    ]


@pytest.mark.peer
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_bias_correction_is_that_of_pytorch(decay):
    torch = pytest.importorskip("torch")
    ours = dense_and_bias()
    optimizer = AdamW(weight_decay=decay, bias_correction=True)
    optimizer.build(ours)
    kernel, bias = (torch.nn.Parameter(torch.tensor(v.numpy())) for v in ours)
    theirs = torch.optim.AdamW(
        [
            {"params": [kernel], "weight_decay": decay},
            {"params": [bias], "weight_decay": 0.0},
        ],
        lr=0.01,
        eps=1e-6,
    )
    for step in range(30):
        gradients = gradients_of(step)
        optimizer.apply([tf.constant(g) for g in gradients], 0.01)
        for parameter, gradient in zip((kernel, bias), gradients, strict=True):
            parameter.grad = torch.tensor(gradient)
        theirs.step()
    for variable, parameter in zip(ours, (kernel, bias), strict=True):
        # 30 updates of 0.01, each rounded to 6e-8 of values up to 3.
        np.testing.assert_allclose(
            variable, parameter.detach(), rtol=0, atol=2e-6
        )
    assert int(optimizer.slots["updates"]) == 30


def test_first_updates_have_the_size_of_the_rate():
    """Without the correction, they are up to three times as large."""
    for kind in (AdamW, Lamb):
        corrected, plain = (
            two_steps(kind, bias_correction=x, weight_decay=0.0)[1]
            for x in (True, False)
        )
        name = "update_norm/dense/kernel"
        assert float(corrected[name]) < float(plain[name])
    variable = tf.Variable([1.0, 2.0], name="a")
    optimizer = AdamW(weight_decay=0.0, bias_correction=True)
    optimizer.build([variable])
    # A step that is skipped does not count.
    for condition in (False, True):
        optimizer.apply(
            [tf.constant([0.3, -4.0])], 0.1, condition=tf.constant(condition)
        )
    np.testing.assert_allclose(variable, [0.9, 2.1], rtol=1e-5)
    assert int(optimizer.slots["updates"]) == 1


@pytest.mark.long
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


def dense_and_bias():
    return [
        tf.Variable([[1.0, -2.0], [0.5, 3.0]], name="dense/kernel"),
        tf.Variable([0.3, 0.4], name="dense/bias"),
    ]


def two_steps(kind, **settings):
    """Two updates; returns the variables and what the last one gave."""
    variables = dense_and_bias()
    optimizer = kind(**settings)
    optimizer.build(variables)
    for scale in (1.0, -0.3):
        gradients = [scale * tf.ones([2, 2]), scale * tf.range(1.0, 3.0)]
        details = optimizer.apply(gradients, 0.1)
    return variables, details


@pytest.mark.parametrize("kind", [AdamW, Lamb])
def test_rate_multipliers_scale_the_whole_change(kind):
    multipliers = {"dense/kernel": 0.25}
    optimizer = kind(rate_multipliers=multipliers, weight_decay=0.5)
    reference = kind(weight_decay=0.5)
    ours, theirs, before = (dense_and_bias() for _ in range(3))
    gradients = [tf.ones([2, 2]), tf.ones([2])]
    for variables, each in ((ours, optimizer), (theirs, reference)):
        each.build(variables)
        each.apply(gradients, 0.1)
    np.testing.assert_allclose(
        ours[0] - before[0], 0.25 * (theirs[0] - before[0]), rtol=1e-5
    )
    np.testing.assert_array_equal(ours[1], theirs[1])


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ([{"name": "twin"}] * 2, "'twin'"),
        ([{"name": "half", "dtype": "bfloat16"}], "'half' is bfloat16"),
    ],
)
def test_variables_that_cannot_be_optimized(variables, message):
    variables = [tf.Variable(1.0, **x) for x in variables]
    with pytest.raises(ValueError, match=message):
        Lamb().build([*dense_and_bias(), *variables])


def test_details_are_norms_and_ratios():
    variables, details = two_steps(Lamb)
    assert set(details) == {
        "update_norm/dense/kernel",
        "trust_ratio/dense/kernel",
        "update_norm/dense/bias",
    }
    weights, found = [v.numpy() for v in dense_and_bias()], {}
    ms, vs = [0.0, 0.0], [0.0, 0.0]
    for scale in (1.0, -0.3):
        for i, gradient in enumerate((np.ones([2, 2]), np.arange(1.0, 3.0))):
            ms[i] = 0.9 * ms[i] + 0.1 * scale * gradient
            vs[i] = 0.999 * vs[i] + 0.001 * (scale * gradient) ** 2
            update = ms[i] / (np.sqrt(vs[i]) + 1e-6)
            ratio = 1.0
            if i == 0:
                update += 0.01 * weights[0]
                ratio = np.linalg.norm(weights[0]) / np.linalg.norm(update)
                found["trust_ratio/dense/kernel"] = ratio
            name = ("dense/kernel", "dense/bias")[i]
            found[f"update_norm/{name}"] = np.linalg.norm(update)
            weights[i] = weights[i] - 0.1 * ratio * update
    assert found == pytest.approx({n: float(x) for n, x in details.items()})
    for variable, weight in zip(variables, weights, strict=True):
        np.testing.assert_allclose(variable, weight, rtol=1e-5)
    assert set(two_steps(AdamW)[1]) == {
        "update_norm/dense/kernel",
        "update_norm/dense/bias",
    }


FOUR_LAYERS = SMALL.replace(num_hidden_layers=4)
HEADS = {
    "encoder/pooler/kernel": 1,
    "mlm_head/dense/kernel": 1,
    "mlm_head/output_bias": 1,
    "sop_head/bias": 1,
}


def scope(outer, half="attention/query", inner=0):
    return f"encoder/transformer/{outer}/inner_{inner}/{half}/kernel"


FFN = "feed_forward/output"


@pytest.mark.parametrize(
    ("changes", "embeddings", "stack"),
    [
        ({}, 1 / 4, {scope("group_0"): 1 / 2, scope("group_0", FFN): 1 / 2}),
        (
            {"num_hidden_groups": 2, "inner_group_num": 2},
            1 / 8,
            {
                scope("group_0"): 1 / 4,
                scope("group_0", FFN, inner=1): 1 / 4,
                scope("group_1", inner=1): 1 / 2,
            },
        ),
        (
            {"sharing": "none"},
            1 / 32,
            {scope("layer_0"): 1 / 16, scope("layer_3", FFN): 1 / 2},
        ),
        (
            {"sharing": "attention", "num_hidden_groups": 2},
            1 / 32,
            {
                scope("group_0"): 1 / 8,
                scope("layer_0", FFN): 1 / 16,
                scope("layer_1", FFN): 1 / 8,
                scope("group_1"): 1 / 2,
                scope("layer_3", FFN): 1 / 2,
            },
        ),
    ],
)
def test_rates_halve_from_level_to_level(changes, embeddings, stack):
    config = FOUR_LAYERS.replace(**changes)
    names = [v.path for v in AlbertPretrainer(config).trainable_variables]
    found = layerwise_rates(config, names, 0.5)
    assert list(found) == names
    expected = {
        "encoder/embeddings/word_embeddings": embeddings,
        "encoder/embeddings/layer_norm/gamma": embeddings,
        "encoder/embedding_projection/kernel": embeddings,
        **stack,
        **HEADS,
    }
    assert {name: found[name] for name in expected} == expected
    lowest_of_stack = 2 * embeddings
    assert min(
        rate for name, rate in found.items() if "/transformer/" in name
    ) == pytest.approx(lowest_of_stack)


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

    # It never scales down the loss.
    for _ in range(9):
        scale.update(tf.constant(False))
    assert scale.scale == 1.0
