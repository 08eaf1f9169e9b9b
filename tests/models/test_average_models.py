"""examples/average_models.py: the average of two models' encoders."""

import pathlib
import runpy

import numpy as np
import pytest

from albert_tf import AlbertEncoder, AlbertPretrainer
from albert_tf.errors import InputError

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples/average_models.py"


@pytest.fixture
def program():
    return runpy.run_path(str(EXAMPLE))


def models(config, **changes):
    first = AlbertPretrainer(config)
    second = AlbertEncoder(config.replace(**changes), pooler=False)
    for number, model in enumerate((first, second)):
        rng = np.random.default_rng(number)
        for variable in model.weights:
            variable.assign(rng.normal(size=variable.shape))
    return first, second


def test_the_average(program, config):
    first, second = models(config)
    before = {x.path: x.numpy() for x in first.weights}
    others = {x.path: x.numpy() for x in second.weights}
    program["average"](first, second, 0.25)
    assert others
    for variable in first.weights:
        path, expected = variable.path, before[variable.path]
        if path in others:  # Not the pooler and the heads.
            expected = 0.75 * expected + 0.25 * others[path]
        np.testing.assert_allclose(variable, expected, atol=1e-6)
    assert any("pooler" in path for path in before.keys() - others)


@pytest.mark.parametrize("weight", [-0.1, 1.5])
def test_weights_that_are_no_share(program, config, weight):
    with pytest.raises(InputError, match="between 0 and 1"):
        program["average"](*models(config), weight)


def test_models_of_other_sizes(program, config):
    with pytest.raises(InputError, match="has the shape"):
        program["average"](*models(config, vocab_size=30), 0.5)


def test_a_first_model_without_a_head_of_sentence_order(program, tmp_path):
    name = "albert_tiny_en"
    output = tmp_path / "averaged"
    program["main"](
        [f"--first={name}", f"--second={name}", f"--output={output}"]
    )
    found = AlbertPretrainer.from_pretrained(output, sop_head=False)
    given = AlbertPretrainer.from_pretrained(name, sop_head=False)
    for variable, expected in zip(found.weights, given.weights, strict=True):
        np.testing.assert_array_equal(variable, expected, err_msg=variable.path)
