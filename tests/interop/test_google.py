import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.interop.google import (
    google_name,
    load_google_checkpoint,
    read_google_weights,
)
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrainer import AlbertPretrainer

CASES = ["a_base", "b_groups2_inner2", "c_no_projection", "d_relu"]


@pytest.fixture
def golden(shared):
    def find(case):
        folder = shared("golden", "google", "model", case)
        config = AlbertConfig.from_json(folder / "albert_config.json")
        return folder, config

    return find


@pytest.mark.parametrize("case", CASES)
def test_reads_every_weight_and_nothing_else(golden, case):
    folder, config = golden(case)
    model = AlbertPretrainer(config)
    weights = read_google_weights(model, folder / "model.ckpt-best")
    reader = tf.train.load_checkpoint(str(folder / "model.ckpt-best"))
    names = set(reader.get_variable_to_shape_map()) - {"global_step"}
    assert {google_name(path) for path in weights} == names
    load_google_checkpoint(model, folder / "model.ckpt-best")
    for variable in model.trainable_variables:
        np.testing.assert_array_equal(variable, weights[variable.path])


def test_training_checkpoints_have_slots_that_are_left_out(golden):
    folder, config = golden("a_base")
    weights = read_google_weights(
        AlbertPretrainer(config), folder / "model.ckpt-lamb-6"
    )
    trained = np.load(folder / "training.npz")
    for path, value in weights.items():
        expected = trained[f"lamb/step6/{google_name(path)}"]
        if path == "sop_head/kernel":
            expected = expected.T
        np.testing.assert_array_equal(value, expected)


def test_an_encoder_takes_its_part(golden):
    folder, config = golden("a_base")
    encoder = AlbertEncoder(config)
    load_google_checkpoint(encoder, folder / "model.ckpt-best")


def test_a_second_group_cannot_vanish(golden):
    folder, config = golden("b_groups2_inner2")
    model = AlbertEncoder(config.replace(num_hidden_groups=1))
    before = [np.asarray(v) for v in model.trainable_variables]
    with pytest.raises(InputError, match="no place for: .*group_1"):
        load_google_checkpoint(model, folder / "model.ckpt-best")
    for variable, value in zip(model.trainable_variables, before, strict=True):
        np.testing.assert_array_equal(variable, value)


def test_missing_weights_are_named(golden):
    folder, config = golden("a_base")
    model = AlbertEncoder(config.replace(num_hidden_groups=2))
    with pytest.raises(InputError, match="lacks .*group_1/inner_group_0"):
        load_google_checkpoint(model, folder / "model.ckpt-best")


def test_other_shapes_are_named(golden):
    folder, config = golden("a_base")
    model = AlbertEncoder(config.replace(intermediate_size=65))
    with pytest.raises(InputError, match=r"has shape \[32, 64\].*\[32, 65\]"):
        load_google_checkpoint(model, folder / "model.ckpt-best")


def test_no_checkpoint(tmp_path):
    model = AlbertEncoder(AlbertConfig.from_official("albert_mini"))
    with pytest.raises(InputError, match="absent is not a TensorFlow check"):
        load_google_checkpoint(model, tmp_path / "absent")
    (tmp_path / "page.index").write_text("<html>404</html>")
    with pytest.raises(InputError, match="page is not a TensorFlow checkpoin"):
        load_google_checkpoint(model, tmp_path / "page")
