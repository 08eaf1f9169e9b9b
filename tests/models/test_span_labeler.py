import keras
import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.models.span_labeler import AlbertSpanLabeler


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
    model = AlbertSpanLabeler(config, "v1")
    assert paths(model) == {"span_head/kernel", "span_head/bias"}
    outputs = model(batch)
    assert set(outputs) == {"start_logits", "end_logits"}
    for value in outputs.values():
        assert value.shape == (4, 12)
    # There is no dropout before it, so training changes nothing.
    again = model(batch, training=True)
    np.testing.assert_array_equal(again["end_logits"], outputs["end_logits"])


def test_joint_contract(config, joint_batch):
    model = AlbertSpanLabeler(config, "joint", start_n_top=3, end_n_top=2)
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
    model = AlbertSpanLabeler(config, "joint", start_n_top=2)
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
    model = AlbertSpanLabeler(config, "joint", dropout=0.5)
    calm, noisy = (model(joint_batch, training=on) for on in (False, True))
    for name, value in calm.items():
        change = np.abs(np.asarray(value) - np.asarray(noisy[name])).max()
        assert (change > 1e-3) == (name == "is_impossible_logits"), name


def test_fits_v1(config, batch):
    keras.utils.set_random_seed(0)
    model = AlbertSpanLabeler(config.replace(initializer_range=0.1), "v1")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(
        keras.optimizers.Adam(1e-2), {"start_logits": loss, "end_logits": loss}
    )
    labels = {
        "start_logits": np.array([3, 4, 5, 6]),
        "end_logits": np.array([4, 4, 7, 8]),
    }
    history = model.fit(batch, labels, epochs=15, verbose=0).history
    assert history["loss"][-1] < 0.5 * history["loss"][0]


def test_fits_joint(config, joint_batch):
    keras.utils.set_random_seed(0)
    model = AlbertSpanLabeler(config.replace(initializer_range=0.1), "joint")
    ops = keras.ops

    def negative_log_likelihood(positions, log_probs):
        index = ops.cast(positions, "int32")[:, None]
        return -ops.take_along_axis(log_probs, index, axis=1)[:, 0]

    model.compile(
        keras.optimizers.Adam(1e-2),
        {
            "start_log_probs": negative_log_likelihood,
            "end_log_probs": negative_log_likelihood,
            "is_impossible_logits": keras.losses.BinaryCrossentropy(
                from_logits=True
            ),
        },
    )
    starts, ends = np.array([3, 4, 5, 0]), np.array([4, 4, 7, 0])
    labels = {
        "start_log_probs": starts,
        "end_log_probs": ends,
        "is_impossible_logits": np.array([0.0, 0.0, 0.0, 1.0]),
    }
    inputs = {**joint_batch, "start_positions": starts}
    history = model.fit(inputs, labels, epochs=15, verbose=0).history
    assert history["loss"][-1] < 0.5 * history["loss"][0]


def test_arguments_stay_with_the_model(config, round_trip, joint_batch):
    model = AlbertSpanLabeler(
        config, "joint", dropout=0.3, start_n_top=2, end_n_top=3
    )
    loaded = round_trip(model)
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
    with pytest.raises(InputError, match=f"AlbertSpanLabeler: {message}"):
        AlbertSpanLabeler(config, **arguments)


def test_bad_inputs(config, batch, joint_batch):
    with pytest.raises(ValueError, match="start_positions; missing: p_mask"):
        AlbertSpanLabeler(config, "joint")(batch)
    with pytest.raises(ValueError, match="unknown: p_mask"):
        AlbertSpanLabeler(config, "v1")(joint_batch)
    model = AlbertSpanLabeler(config, "joint", end_n_top=13)
    with pytest.raises(ValueError, match="has length 12, but end_n_top=13"):
        model(joint_batch)
