"""Global batches, split into one slice per replica."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.python.data.experimental.ops.distribute import replicate

from albert_tf.errors import InputError
from albert_tf.tensor_ops import fold_in
from albert_tf.training.workers import input_context

# Matches the error of `assert_cardinality`: a file does not have the number of
# records that was counted.
MISCOUNTED = re.compile(r"expected to contain \d+ elements")


def shuffle(values: tf.Tensor, seed: tf.Tensor, number) -> tf.Tensor:
    """Shuffles deterministically, unlike `Dataset.shuffle`.

    The order of `values` (`[n]`) depends only on `seed` (int64 `[2]`) and
    `number`, which is folded into it; `Dataset.shuffle` mixes in the global
    seed.
    """
    seed = fold_in(seed, number)
    keys = tf.random.stateless_uniform(
        tf.shape(values), seed, None, None, tf.int32, alg="philox"
    )
    return tf.gather(values, tf.argsort(keys, stable=True))


def batch_options() -> tf.data.Options:
    """Returns the `tf.data.Options` of every dataset of batches.

    Datasets are deterministic and are not sharded by file, because workers
    split the rows of each batch. Autotuning is off: its thread can miss that
    the iterator is being destroyed, which then blocks for up to a minute.
    """
    options = tf.data.Options()
    options.deterministic = True
    options.autotune.enabled = False
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.OFF
    )
    return options


PerHostFn = Callable[[tf.distribute.InputContext], tf.data.Dataset | None]


class GlobalBatches(NamedTuple):
    """Global batches, and how each host reads its own rows of them.

    Attributes:
      dataset: the global batches.
      per_host_fn: called with the `tf.distribute.InputContext` of a host,
        returns this host's rows of every batch; None if the host has to read
        whole batches.
    """

    dataset: tf.data.Dataset
    per_host_fn: PerHostFn


def distribute(
    strategy: tf.distribute.Strategy,
    dataset: tf.data.Dataset,
    *,
    endless: bool = False,
    per_host_fn: PerHostFn | None = None,
) -> Any:
    """Distributes a dataset of global batches over the replicas.

    With every strategy, replica r of N gets examples `r * batch // N` to
    `(r + 1) * batch // N` of each batch. TensorFlow's own auto-sharding works
    by file where it can, so that the batches would depend on the number of
    workers. Every host reads the whole dataset, unless `per_host_fn` returns
    its rows.

    Args:
      strategy: any synchronous strategy.
      dataset: nested tensors `[batch, ...]`. The last batch may be smaller; a
        replica's slice of it may then be empty.
      endless: declare the dataset infinite. Reading past its end is then a
        `FailedPreconditionError`. Otherwise the workers run an all-reduce for
        each batch, to agree on whether it is the last.
      per_host_fn: see `GlobalBatches`.

    Returns:
      An iterable of arguments for `strategy.run`.
    """

    def declare(dataset: tf.data.Dataset) -> tf.data.Dataset:
        if not endless:
            return dataset
        infinite = tf.data.INFINITE_CARDINALITY
        return dataset.apply(tf.data.experimental.assert_cardinality(infinite))

    if strategy.num_replicas_in_sync == 1:
        if isinstance(strategy, tf.distribute.OneDeviceStrategy):
            (device,) = strategy.extended.worker_devices
            if "CPU" in device:
                return declare(dataset)  # Batches need not be copied there.
        return strategy.experimental_distribute_dataset(declare(dataset))

    def dataset_fn(context: tf.distribute.InputContext) -> tf.data.Dataset:
        hosts = context.num_input_pipelines
        rows = per_host_fn(context) if per_host_fn and hosts > 1 else None
        if rows is None:
            return declare(per_replica_slices(dataset, context))
        replicas = context.num_replicas_in_sync // hosts
        one_host = tf.distribute.InputContext(1, 0, replicas)
        return declare(per_replica_slices(rows, one_host))

    return strategy.distribute_datasets_from_function(dataset_fn)


def per_replica_slices(
    dataset: tf.data.Dataset, context: tf.distribute.InputContext
) -> tf.data.Dataset:
    """Cuts global batches into one slice for each replica of a host.

    Returns:
      Dataset of slices: for each batch, one for every replica of the host. If
      the number of replicas divides the static batch size, the slices have a
      static size too, as a TPU requires.
    """
    replicas = context.num_replicas_in_sync
    here = replicas // context.num_input_pipelines
    first = context.input_pipeline_id * here

    def slices(batch):
        return tf.data.Dataset.range(first, first + here).map(
            lambda replica: _slice(batch, replica, replicas)
        )

    # Prefetch the next step: one slice per replica.
    return _on_this_host(dataset).flat_map(slices).prefetch(here)


def _on_this_host(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Copies the dataset to the host of the current device scope.

    One process controls all hosts of a TPU pod, and a dataset that was created
    on one host cannot be read on another. `experimental_distribute_dataset`
    does the same.
    """
    device = tf.constant(0).device
    return replicate(dataset, [device])[device]


def _slice(batch: Any, replica: tf.Tensor, replicas: int) -> Any:
    first = tf.nest.flatten(batch)[0]
    size = tf.shape(first, out_type=tf.int64)[0]
    begin, end = replica * size // replicas, (replica + 1) * size // replicas
    static = first.shape[0]
    if static is not None:
        static = None if static % replicas else static // replicas
    return tf.nest.map_structure(
        lambda x: tf.ensure_shape(x[begin:end], [static, *x.shape[1:]]), batch
    )


def static_batch_size(dataset: tf.data.Dataset) -> int:
    """Returns the size of the global batches, which must be static."""
    sizes = {
        spec.shape[0] if spec.shape.rank else None
        for spec in tf.nest.flatten(dataset.element_spec)
    }
    size = sizes.pop() if len(sizes) == 1 else None
    if size is None:
        raise InputError(
            "training batches must have a fixed size, but the dataset yields "
            f"{dataset.element_spec}; use batch(size, drop_remainder=True)"
        )
    return size


def slice_size(batch_size: int, replicas: int, accumulation: int) -> int:
    """Returns the examples of a micro-batch; all must have the same number."""
    slices = replicas * accumulation
    if batch_size % slices:
        raise InputError(
            f"global batch size {batch_size} must be a multiple of {slices} = "
            f"{replicas} replicas x gradient_accumulation_steps={accumulation}"
        )
    return batch_size // slices


def check_batches(
    data: GlobalBatches,
    steps: int,
    accumulation: int,
    strategy: tf.distribute.Strategy,
) -> None:
    """Checks training data for a number of steps, and reads the first batch.

    The batches must have a static size that can be split into equal slices. If
    TensorFlow does not know their number, too few of them are noticed here only
    if there is none.
    """
    dataset, per_host_fn = data
    slice_size(
        static_batch_size(dataset), strategy.num_replicas_in_sync, accumulation
    )
    context = input_context(strategy)
    rows = per_host_fn(context) if context.num_input_pipelines > 1 else None
    dataset = dataset if rows is None else rows
    found = int(dataset.cardinality())
    if found < 0:  # Infinite or unknown.
        found = steps if any(True for _ in dataset.take(1)) else 0
    if found < steps:
        raise InputError(
            f"the training data have {found} batches, fewer than the {steps} "
            "steps to do; repeat the dataset or lower num_train_steps"
        )
