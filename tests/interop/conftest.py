import shutil

import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.interop.checkpoint import Checkpoint, HeadSettings
from albert_tf.interop.file_types import TensorFile
from albert_tf.interop.matching import match_tensors
from albert_tf.interop.names import tensors_of


@pytest.fixture
def copied(stored, tmp_path):
    """Returns `copied(name)`: a copy of a stored checkpoint, to be changed."""
    return lambda name: shutil.copytree(stored / name, tmp_path / name)


@pytest.fixture(scope="session")
def config():
    """Three groups of two blocks."""
    return AlbertConfig(
        vocab_size=30,
        embedding_size=4,
        hidden_size=8,
        num_hidden_layers=6,
        num_hidden_groups=3,
        inner_group_num=2,
        num_attention_heads=2,
        intermediate_size=12,
        max_position_embeddings=16,
    )


def components_of(config, heads):
    components = {"encoder", "pooler", *heads}
    if config.has_embedding_projection:
        components.add("projection")
    return frozenset(components)


@pytest.fixture(scope="session")
def make_checkpoint():
    """Returns `make(config, *heads, ...)`: a checkpoint of random weights."""

    def make(config, *heads, num_labels=1, pooler=True, **fields):
        components = components_of(config, heads) - (
            set() if pooler else {"pooler"}
        )
        rng = np.random.default_rng(0)
        arrays = {
            tensor.path: rng.normal(0, 1, tensor.shape).astype("float32")
            for tensor in tensors_of(config, components, num_labels)
        }
        return Checkpoint(
            config=config,
            components=components,
            arrays=arrays,
            head=HeadSettings(num_labels),
            **fields,
        )

    return make


class Tensors(dict):
    """Tensors under a system's names: name -> array."""

    def __init__(self, system, arrays):
        super().__init__(arrays)
        self.system = system

    def match(self, config, **arguments):
        shapes = {name: array.shape for name, array in self.items()}
        file = TensorFile(shapes, self.__getitem__, "the file")
        return match_tensors(self.system, file, config, **arguments)

    def renamed(self, rename):
        renamed = {rename(name): array for name, array in self.items()}
        return Tensors(self.system, renamed)


@pytest.fixture(scope="session")
def tensors():
    """Returns `make(system, config, *heads)`: a checkpoint's `Tensors`."""

    def make(system, config, *heads, num_labels=1):
        rng = np.random.default_rng(0)
        arrays = {}
        components = components_of(config, heads)
        for tensor in tensors_of(config, components, num_labels):
            theirs = tensor.names[system]
            shape = theirs.transform.shape(tensor.shape)
            arrays[theirs.name] = rng.normal(0, 1, shape).astype("float32")
        return Tensors(system, arrays)

    return make


@pytest.fixture(scope="session")
def assert_equal():
    """Returns `check(actual, expected)`: checkpoints are equal, bit for bit."""

    def check(actual, expected):
        assert actual.components == expected.components
        assert set(actual.arrays) == set(expected.arrays)
        for path in expected.arrays:
            value = actual.arrays[path]
            assert value.dtype == np.float32
            np.testing.assert_array_equal(value, expected.arrays[path], path)

    return check
