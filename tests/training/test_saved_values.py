import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training.saved_values import load_model_variables


@pytest.fixture(scope="module")
def run(toy, tmp_path_factory):
    """Folder and final weights of a run."""
    folder = tmp_path_factory.mktemp("run")
    model, *_ = toy.run(
        tf.distribute.get_strategy(),
        total_steps=4,
        save_steps=2,
        run_dir=folder,
    )
    return folder, toy.weights(model)


@pytest.mark.parametrize(
    "part", ["", "checkpoints", "checkpoints/step-00000004"]
)
def test_weights_of_the_newest(toy, run, part):
    folder, weights = run
    model = toy.Toy(seed=9)
    assert load_model_variables(model, folder / part) == 4
    for name, value in toy.weights(model).items():
        np.testing.assert_array_equal(value, weights[name])


def test_one_checkpoint_by_name(toy, run):
    model = toy.Toy(seed=9)
    path = run[0] / "checkpoints" / "step-00000002"
    assert load_model_variables(model, path) == 2


def test_part_of_the_model_is_refused(toy, run):
    part = PartOf(toy.Toy(seed=9), "table")
    with pytest.raises(InputError, match="holds model/dense"):
        load_model_variables(part, run[0])


def test_folder_without_checkpoint_is_named(toy, tmp_path):
    with pytest.raises(InputError, match="no checkpoint there"):
        load_model_variables(toy.Toy(), tmp_path)


class PartOf:
    def __init__(self, model, name):
        self.weights = [v for v in model.weights if name in v.path]
