"""Measured peak rate of matrix products, for `matmul_share`."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import tensorflow as tf

from albert_tf.training.workers import sum_over_replicas

# Sizes double until a product takes _LONG_PRODUCT seconds. All sizes up to
# _AT_LEAST are measured, because a busy machine may look slow for a moment.
_LONG_PRODUCT = 0.01
_SMALLEST, _AT_LEAST, _LARGEST = 512, 2048, 8192
# Much longer than the overhead of a call, but short enough that some calls are
# not disturbed by other processes.
_CALL_SECONDS = 0.01
_SIZE_SECONDS = 0.1

# (dtype, devices) -> rate of a replica; measured once per process.
_measured: dict[tuple[str, ...], float] = {}


def matmul_peak(strategy: tf.distribute.Strategy, dtype: str) -> float | None:
    """Measures the rate of large square matrix products on all replicas.

    Takes about half a second, for the best of many short calls with a few
    sizes. The replicas of a machine compute at the same time. With several
    workers, all must call it: each measures its own devices, and the rates are
    summed.

    Args:
      strategy: the strategy of the run.
      dtype: dtype of the products: "float32", "bfloat16" or "float16".

    Returns:
      FLOPs per second (2 * m * k * n per product) of all replicas together;
      None on a TPU, where training is compiled and these products are not.
    """
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return None
    # Workers may share a machine, so they have to start together.
    total = sum_over_replicas(strategy)
    total(0.0)
    key = (dtype, *strategy.extended.worker_devices)
    if key not in _measured:
        _measured[key] = _replica_peak(strategy, dtype)
    return total(_measured[key])


def _replica_peak(strategy, dtype: str) -> float:
    best, size, seconds = 0.0, _SMALLEST, 0.0
    while size <= _AT_LEAST or (size <= _LARGEST and seconds < _LONG_PRODUCT):
        seconds = _least_seconds(_products(strategy, dtype, size))
        best = max(best, 2.0 * size**3 / seconds)
        size *= 2
    return best


def _products(strategy, dtype: str, size: int) -> Callable[[int], None]:
    """Returns a function that runs n products on each local replica."""

    @tf.function(autograph=False)
    def factors():
        def on_replica():
            left, right = (
                tf.random.stateless_normal([size, size], [size, i])
                for i in range(2)
            )
            # Repeated products keep unit scale.
            return tf.cast(left, dtype), tf.cast(right / math.sqrt(size), dtype)

        return strategy.run(on_replica)

    @tf.function(autograph=False)
    def multiply(left, right, products):
        def on_replica(left, right):
            _, product = tf.while_loop(
                lambda i, _: i < products,
                lambda i, x: (i + 1, tf.matmul(x, right)),
                (0, left),
            )
            # Only a scalar leaves the device.
            return tf.cast(product[0, 0], tf.float32)

        return strategy.run(on_replica, args=(left, right))

    left, right = factors()

    def call(products: int) -> None:
        result = multiply(left, right, tf.constant(products))
        for scalar in strategy.experimental_local_results(result):
            scalar.numpy()

    return call


def _least_seconds(call: Callable[[int], None]) -> float:
    """Returns the time of one product, the minimum of many calls."""

    def seconds(products: int) -> float:
        started = time.perf_counter()
        call(products)
        return (time.perf_counter() - started) / products

    call(1)  # Traces, and warms up.
    least = seconds(1)
    products = max(1, round(_CALL_SECONDS / least))
    end = time.perf_counter() + _SIZE_SECONDS
    while time.perf_counter() < end:
        least = min(least, seconds(products))
    return least
