import subprocess
import sys
import time

import pytest
import tensorflow as tf

from albert_tf.training.matmul_peak import matmul_peak


def best_rate(size=512, calls=20):
    """Operations per second of single products, without this package."""
    x = tf.random.stateless_normal([size, size], [1, 2])
    seconds = []
    for _ in range(calls):
        started = time.perf_counter()
        tf.matmul(x, x).numpy()
        seconds.append(time.perf_counter() - started)
    return 2 * size**3 / min(seconds)


def test_peak_is_the_rate_of_products(one_device):
    # Other work on the machine may slow either down, so the bounds are wide;
    # a factor of 8 (bits, batch) or 1000 (units) would still be found.
    assert 1 / 6 < matmul_peak(one_device, "float32") / best_rate() < 6


@pytest.mark.long
def test_replicas_that_share_a_processor_share_its_peak(two_replicas):
    assert 1 / 6 < matmul_peak(two_replicas, "float32") / best_rate() < 6


def test_training_reports_its_share_of_the_peak(toy, one_device):
    def share(**arguments):
        _, result = toy.train_one_weight(
            one_device, toy.SeedLoss(), num_train_steps=4, **arguments
        )
        metrics = result.metrics
        return metrics.get("matmul_share"), metrics["examples_per_second"]

    found, rate = share(flops_per_example=10**6)
    # It is measured once per process.
    peak = matmul_peak(one_device, "float32")
    assert found == pytest.approx(rate * 10**6 / peak)
    assert share()[0] is None


def test_tpu_is_not_measured():
    # No TPU here; what is tested is that nothing is asked of it.
    strategy = object.__new__(tf.distribute.TPUStrategy)
    assert matmul_peak(strategy, "bfloat16") is None


PROGRAM = """
from albert_tf.training.distribution import make_strategy
from albert_tf.training.matmul_peak import matmul_peak
print("peak", matmul_peak(make_strategy(), "float32"))
"""


@pytest.mark.slow
def test_workers_agree_on_the_sum_of_their_peaks(worker_environments):
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for environment in worker_environments(2)
    ]
    try:
        outputs = [p.communicate(timeout=120)[0] for p in processes]
    finally:
        for process in processes:
            process.kill()
    first, second = (float(output.split()[-1]) for output in outputs)
    assert first == second
    # Both on the processors of this machine.
    assert 1 / 6 < first / best_rate() < 6
