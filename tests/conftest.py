import contextlib
import gc
import json
import os
import pathlib
import random
import socket
import sys

import pytest

# Before TensorFlow is imported anywhere: its start-up chatter hides failures.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# As `albert` has it, so that tests compute alike in and out of their process.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

# Before TensorFlow, too: Triton, which comes with PyTorch's CUDA build, crashes
# the process when it is loaded after it.
with contextlib.suppress(ImportError):
    import triton  # noqa: F401

import tensorflow as tf  # noqa: E402

# Two virtual devices stand in for two accelerators. This has to come before
# TensorFlow starts, which any module of tests may make it do by a tensor, so it
# is neither a fixture nor in the modules that need it; CPU:0 alone works as
# ever.
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 2,
)

_REPOSITORY = pathlib.Path(__file__).resolve().parents[1]


def pytest_fixture_setup(fixturedef):
    """Seeds what Keras draws the seeds of new weights from.

    So models of fixtures and tests have the same weights whatever ran before
    them, in whichever process.
    """
    random.seed(f"{fixturedef.baseid}::{fixturedef.argname}")


def pytest_runtest_call(item):
    """Seeds the models of a test, see `pytest_fixture_setup`."""
    random.seed(item.nodeid)


@pytest.fixture(scope="session")
def shared():
    """Returns `shared(*parts)`: a path of the shared data, or skips."""
    root = pathlib.Path(
        os.environ.get("ALBERT_TF_SHARED", _REPOSITORY.parent / "shared")
    )

    def find(*parts: str) -> pathlib.Path:
        path = root.joinpath(*parts)
        if not path.exists():
            pytest.skip(f"shared data absent: {'/'.join(parts)}")
        return path

    return find


@pytest.fixture
def worker_environments():
    """Returns `make(count)`: the environments of a cluster's workers."""

    def make(count):
        with contextlib.ExitStack() as stack:
            sockets = [
                stack.enter_context(socket.socket()) for _ in range(count)
            ]
            for each in sockets:
                each.bind(("localhost", 0))
            ports = [each.getsockname()[1] for each in sockets]
        cluster = {"worker": [f"localhost:{port}" for port in ports]}
        tasks = [{"type": "worker", "index": index} for index in range(count)]
        return [
            os.environ
            | {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}
            for task in tasks
        ]

    return make


@pytest.fixture(autouse=True, scope="module")
def _free_memory():
    """Lets go of the models of a module: gigabytes over the whole suite."""
    yield
    if "keras" in sys.modules:
        sys.modules["keras"].backend.clear_session()
    gc.collect()
