import json

import keras
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training.distribution import (
    make_strategy,
    set_precision,
    strategy_of_this_machine,
)
from albert_tf.training.workers import (
    any_worker,
    check_same_step,
    is_chief,
    mean_over_workers,
)

TWO_CPUS = ["CPU:0", "CPU:1"]


@pytest.fixture
def two_workers(monkeypatch):
    cluster = {"worker": ["localhost:1", "localhost:2"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster}))


def test_auto_is_one_device_without_accelerators():
    strategy = make_strategy()
    assert isinstance(strategy, tf.distribute.OneDeviceStrategy)
    with strategy.scope():
        assert "CPU:0" in tf.Variable(1.0).device


@pytest.mark.parametrize("distribution", ["auto", "mirrored"])
def test_several_devices_are_mirrored(distribution):
    strategy = make_strategy(distribution, devices=TWO_CPUS)
    assert isinstance(strategy, tf.distribute.MirroredStrategy)
    assert strategy.num_replicas_in_sync == 2
    assert is_chief(strategy)
    assert any_worker(strategy, lambda: True)()
    assert not any_worker(strategy, lambda: False)()
    assert mean_over_workers(strategy)(1.5) == 1.5
    for step in (None, 0, 7):
        check_same_step(strategy, step)


def test_work_of_one_process_does_not_wait_for_workers(two_workers):
    strategy = strategy_of_this_machine()
    assert isinstance(strategy, tf.distribute.OneDeviceStrategy)


def test_one_mirrored_strategy_a_process():
    # Two would abort each other's collectives as soon as shapes differ.
    assert make_strategy(devices=TWO_CPUS) is make_strategy(
        "mirrored", devices=TWO_CPUS
    )


def test_one_device_can_be_chosen():
    strategy = make_strategy("one_device", devices=["CPU:1"])
    with strategy.scope():
        assert "CPU:1" in tf.Variable(1.0).device


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"distribution": "horovod"}, "distribution='horovod': choose one of"),
        ({"distribution": "tpu"}, "requires tpu"),
        (
            {"distribution": "mirrored", "tpu": "x"},
            "tpu='x' requires distribution='tpu'",
        ),
        ({"tpu_zone": "us-1"}, "tpu_zone='us-1' requires distribution='tpu'"),
        ({"gcp_project": "p"}, "gcp_project='p' requires distribution='tpu'"),
        ({"tpu": "x", "devices": TWO_CPUS}, "devices=CPU:0,CPU:1 is not"),
        (
            {"distribution": "one_device", "devices": TWO_CPUS},
            "pass one device",
        ),
        ({"distribution": "multi_worker"}, "TF_CONFIG"),
        ({"devices": ["CPU:0", "GPU:7"]}, "GPU:7 is not on this machine"),
        ({"tpu": "local"}, "tpu='local' cannot be reached"),
    ],
)
def test_contradictory_arguments_are_one_line_errors(arguments, message):
    with pytest.raises(InputError, match=message) as error:
        make_strategy(**arguments)
    assert "\n" not in str(error.value)


def test_all_cpus_are_mirrored_without_a_gpu():
    assert make_strategy("mirrored").num_replicas_in_sync == 2


def test_one_cpu_is_not_mirrored(monkeypatch):
    # As on a user's machine, whose CPU was not cut in two (see conftest.py).
    cpu = tf.config.list_logical_devices("CPU")[:1]
    monkeypatch.setattr(
        tf.config,
        "list_logical_devices",
        lambda kind: cpu if kind == "CPU" else [],
    )
    with pytest.raises(InputError, match="no GPU, and its CPU is one device"):
        make_strategy("mirrored")


@pytest.mark.usefixtures("two_workers")
def test_workers_and_tpu_contradict_each_other():
    with pytest.raises(InputError, match="TF_CONFIG contradict"):
        make_strategy(tpu="local")


def test_invalid_tf_config_is_an_error(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "{cluster:")
    with pytest.raises(InputError, match="TF_CONFIG is not a JSON"):
        make_strategy()


def test_precision_is_the_policy_of_new_layers():
    try:
        set_precision("mixed_bfloat16")
        layer = keras.layers.Dense(1)
        layer.build((None, 1))
        assert layer.compute_dtype == "bfloat16"
        assert layer.kernel.dtype == "float32"
    finally:
        set_precision("float32")
    with pytest.raises(InputError, match="precision='float64'"):
        set_precision("float64")


IS_CHIEF = """
import tensorflow as tf
from albert_tf.training.workers import is_chief
print(is_chief(tf.distribute.MultiWorkerMirroredStrategy()))
"""


@pytest.mark.parametrize(
    ("role", "expected"),
    [("chief", "True"), ("worker", "True"), ("evaluator", "False")],
)
def test_evaluator_is_not_the_chief(
    run_albert, worker_environments, role, expected
):
    first, second = worker_environments(2)
    addresses = json.loads(first["TF_CONFIG"])["cluster"]["worker"]
    # The only task of its job, beside those of the other one.
    other = "worker" if role == "evaluator" else "evaluator"
    cluster = {role: addresses[:1], other: addresses[1:]}
    task = {"type": role, "index": 0}
    config = json.dumps({"cluster": cluster, "task": task})
    result = run_albert("-c", IS_CHIEF, env=second | {"TF_CONFIG": config})
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == [expected]
