import importlib.util
import pathlib

import pytest

from albert_tf.training.distribution import make_strategy


@pytest.fixture(scope="session")
def toy():
    """The module toy.py, which is also the program of some tests."""
    path = pathlib.Path(__file__).with_name("toy.py")
    spec = importlib.util.spec_from_file_location("toy", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def one_device():
    return make_strategy("one_device")


@pytest.fixture
def two_replicas():
    return make_strategy("mirrored", devices=["CPU:0", "CPU:1"])
