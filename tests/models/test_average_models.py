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


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("vocab_size", 30),
        # Their weights have equal shapes.
        ("num_hidden_layers", 5),
        ("num_attention_heads", 8),
        ("hidden_act", "relu"),
    ],
)
def test_models_of_other_architectures(program, config, setting, value):
    first, second = models(config, **{setting: value})
    before = [x.numpy() for x in first.weights]
    message = (
        f"{setting} is {getattr(config, setting)} in the first model and "
        f"{value} in the second"
    )
    with pytest.raises(InputError, match=message):
        program["average"](first, second, 0.5)
    for variable, expected in zip(first.weights, before, strict=True):
        np.testing.assert_array_equal(variable, expected)


def test_models_that_were_trained_differently(program, config):
    changes = {
        "hidden_dropout_prob": 0.2,
        "attention_probs_dropout_prob": 0.2,
        "initializer_range": 0.5,
        "trained_positions": 3,
        # Without effect, as the sizes differ.
        "project_equal_sizes": True,
    }
    first, second = models(config, **changes)
    program["average"](first, second, 1.0)
    words, others = (x.embeddings.weights for x in (first.encoder, second))
    for variable, expected in zip(words, others, strict=True):
        np.testing.assert_allclose(variable, expected, atol=1e-6)


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
