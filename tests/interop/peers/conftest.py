"""What the comparisons with the peer libraries have in common.

Nothing here imports a peer: that is for the tests.
"""

import numpy as np
import pytest

from albert_tf.config import AlbertConfig

BASE = AlbertConfig(
    vocab_size=60,
    embedding_size=12,
    hidden_size=24,
    num_hidden_layers=3,
    num_attention_heads=3,
    intermediate_size=40,
    max_position_embeddings=20,
)
CONFIGS = {
    "base": BASE,
    "gelu_erf": BASE.replace(hidden_act="gelu_erf"),
    "relu": BASE.replace(hidden_act="relu"),
    # Layers 0 and 1 share weights, as do 2 and 3, and 4 and 5; of 2 blocks.
    "groups": BASE.replace(
        num_hidden_layers=6, num_hidden_groups=3, inner_group_num=2
    ),
    "equal_sizes": BASE.replace(embedding_size=24),
    "equal_sizes_projected": BASE.replace(
        embedding_size=24, project_equal_sizes=True
    ),
}

# Last name of a variable -> mean and standard deviation. Far from zeros and
# ones, and no two alike: each weight shows in the outputs.
_WEIGHTS = {
    "gamma": (1.0, 0.2),
    "beta": (0.0, 0.1),
    "bias": (0.0, 0.1),
    "output_bias": (0.0, 0.1),
}
_MATRIX = (0.0, 0.15)


@pytest.fixture(scope="session")
def configs():
    """Name -> config: what the peers differ in, as small as can be."""
    return CONFIGS


@pytest.fixture(params=CONFIGS.values(), ids=CONFIGS.keys())
def config(request):
    """Each of `configs` in turn."""
    return request.param


@pytest.fixture(scope="session")
def random_model():
    """Returns `make(cls, config, seed, **arguments)`, with random weights."""

    def make(cls, config, seed=0, **arguments):
        model = cls(config, **arguments)
        rng = np.random.default_rng(seed)
        for variable in model.trainable_variables:
            kind = variable.path.rpartition("/")[2]
            mean, deviation = _WEIGHTS.get(kind, _MATRIX)
            variable.assign(rng.normal(mean, deviation, variable.shape))
        return model

    return make


@pytest.fixture(scope="session")
def random_batch():
    """Returns `make(config, batch, length, seed)`: an encoder's inputs.

    Pairs of texts of ids that are no special ones, `[CLS] a [SEP] b [SEP]`,
    followed by padding in all rows but the first.
    """

    def make(config, batch=4, length=12, seed=0):
        rng = np.random.default_rng(seed)
        cls_id, sep_id, first = 2, 3, 5
        ids = np.zeros((batch, length), "int32")
        segments, mask = np.zeros_like(ids), np.zeros_like(ids)
        for row in range(batch):
            real = length if row == 0 else int(rng.integers(5, length))
            split = int(rng.integers(2, real - 2))
            ids[row, :real] = rng.integers(first, config.vocab_size, real)
            ids[row, [0, split, real - 1]] = cls_id, sep_id, sep_id
            segments[row, split + 1 : real] = 1
            mask[row, :real] = 1
        return {
            "input_word_ids": ids,
            "input_mask": mask,
            "input_type_ids": segments,
        }

    return make


@pytest.fixture(scope="session")
def assert_same_weights():
    """Compares the weights of two models by path, bit for bit."""

    def check(model, expected):
        ours = {v.path: np.asarray(v) for v in model.weights}
        theirs = {v.path: np.asarray(v) for v in expected.weights}
        assert ours.keys() == theirs.keys()
        for path, value in ours.items():
            np.testing.assert_array_equal(value, theirs[path], err_msg=path)

    return check
