"""Global batches, split into one slice per replica."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.data.experimental.ops.distribute import replicate

from albert_tf.errors import InputError

# In the text of the error that a part of a dataset, such as a file, has not as
# many elements as were counted.
MISCOUNTED = re.compile(r"expected to contain \d+ elements")


def shuffle(values: tf.Tensor, seed: tf.Tensor, number) -> tf.Tensor:
    """Shuffles by (seed, number) alone; `Dataset.shuffle` adds global seeds.

    Args:
      values: `[n]`.
      seed: int64 `[2]`.
      number: a scalar, folded into the seed.
    """
    seed = tf.random.experimental.stateless_fold_in(seed, number)
    keys = tf.random.stateless_uniform(
        tf.shape(values), seed, None, None, tf.int32, alg="philox"
    )
    return tf.gather(values, tf.argsort(keys, stable=True))


def batch_options() -> tf.data.Options:
    """Returns the options of every dataset of batches.

    Elements are in one order. Workers share the rows of batches, not the files.
    Nothing tunes the pipeline in the background: TensorFlow's thread for it can
    miss that its iterator is destroyed, which then waits for as long as the
    thread sleeps, up to a minute.
    """
    options = tf.data.Options()
    options.deterministic = True
    options.autotune.enabled = False
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.OFF
    )
    return options


@dataclasses.dataclass(frozen=True)
class HostShare:
    """The part of the rows of every batch that one of several hosts feeds.

    Attributes:
      host: the host.
      hosts: number of hosts, which divides `groups`.
      groups: equal parts of each batch that are read independently.
    """

    host: int = 0
    hosts: int = 1
    groups: int = 1


WHOLE = HostShare()


# Returns a host's rows of all batches; None if it cannot read them alone.
RowsOfHost = Callable[[HostShare], tf.data.Dataset | None]

# Global batches, and what hosts read of them.
Batches = tuple[tf.data.Dataset, RowsOfHost]


@dataclasses.dataclass(frozen=True)
class SharedBatches:
    """Batches of which several hosts can each read their own rows alone.

    It is called as other functions that return datasets are.

    Attributes:
      read: returns the global batches from a given number on, or a host's rows
        of them.
      groups: see `HostShare`; a host can read whole ones only.
    """

    read: Callable[[int, HostShare], tf.data.Dataset]
    groups: int

    def __call__(self, first: int) -> tf.data.Dataset:
        """Returns the global batches from a given number on."""
        return self.read(first, HostShare(groups=self.groups))

    def of_host(
        self, share: HostShare
    ) -> Callable[[int], tf.data.Dataset] | None:
        """Returns what reads a host's rows; None if it cannot alone."""
        if self.groups % share.hosts:
            return None
        mine = dataclasses.replace(share, groups=self.groups)
        return lambda first: self.read(first, mine)


def distribute(
    strategy: tf.distribute.Strategy,
    dataset: tf.data.Dataset,
    *,
    endless: bool = False,
    rows_of_host: RowsOfHost | None = None,
) -> Any:
    """Distributes a dataset of global batches.

    Replica r of N gets examples `r * batch // N` to `(r + 1) * batch // N` of
    every batch, in this order with every strategy. TensorFlow by itself shards
    by files if it finds any, so several workers would see other batches than
    one. Every worker reads the whole dataset, unless it can read its own rows.

    Args:
      strategy: any synchronous strategy.
      dataset: nested tensors `[batch, ...]`. The last batch may be smaller; a
        replica's slice of it may then be empty.
      endless: declare that no batch is the last one; to read beyond a last
        one is a `FailedPreconditionError`. Without this, the workers add up a
        number for each batch, to agree on which is the last.
      rows_of_host: see `RowsOfHost`.

    Returns:
      An iterable of arguments for `strategy.run`.
    """

    def declared(dataset: tf.data.Dataset) -> tf.data.Dataset:
        if not endless:
            return dataset
        infinite = tf.data.INFINITE_CARDINALITY
        return dataset.apply(tf.data.experimental.assert_cardinality(infinite))

    if strategy.num_replicas_in_sync == 1:
        if isinstance(strategy, tf.distribute.OneDeviceStrategy):
            (device,) = strategy.extended.worker_devices
            if "CPU" in device:
                return declared(dataset)  # Batches need not be copied there.
        return strategy.experimental_distribute_dataset(declared(dataset))

    def slices(context: tf.distribute.InputContext) -> tf.data.Dataset:
        hosts = context.num_input_pipelines
        rows = None
        if rows_of_host is not None and hosts > 1:
            rows = rows_of_host(HostShare(context.input_pipeline_id, hosts))
        if rows is None:
            return declared(slices_of_host(dataset, context))
        replicas = context.num_replicas_in_sync // hosts
        here = tf.distribute.InputContext(1, 0, replicas)
        return declared(slices_of_host(rows, here))

    return strategy.distribute_datasets_from_function(slices)


def slices_of_host(
    dataset: tf.data.Dataset, context: tf.distribute.InputContext
) -> tf.data.Dataset:
    """Returns the slices for the replicas that one host feeds, in turn.

    Args:
      dataset: global batches; see `distribute`.
      context: number of this host, of all hosts and of all replicas.

    Returns:
      Dataset of slices: for each batch, one for every replica of the host. If
      the replicas divide the static size of the batches, the slices have a
      static size too, as a TPU requires.
    """
    replicas = context.num_replicas_in_sync
    here = replicas // context.num_input_pipelines
    first = context.input_pipeline_id * here

    def slices(batch):
        return tf.data.Dataset.range(first, first + here).map(
            lambda replica: _slice(batch, replica, replicas)
        )

    # Read ahead one slice a replica: the next step's.
    return _on_this_host(dataset).flat_map(slices).prefetch(here)


def _on_this_host(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns the dataset on the host of the current device scope.

    One process controls all hosts of a TPU pod, and a dataset created on its
    own host cannot be read on the others, so it is created again there, as in
    `experimental_distribute_dataset`.
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
    """Returns the size of the global batches.

    Raises:
      InputError: the batches of the dataset have no common static size.
    """
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
    """Returns the number of examples of a micro-batch.

    Raises:
      InputError: the global batch cannot be split into equal slices.
    """
    slices = replicas * accumulation
    if batch_size % slices:
        raise InputError(
            f"global batch size {batch_size} must be a multiple of {slices} = "
            f"{replicas} replicas x gradient_accumulation_steps={accumulation}"
        )
    return batch_size // slices


def check_batches(
    data: Batches,
    batches: int,
    accumulation: int,
    strategy: tf.distribute.Strategy,
) -> None:
    """Checks training data, and reads the first batch.

    Args:
      data: global batches, and what hosts read of them.
      batches: the number of batches that will be read.
      accumulation: micro-batches of a replica.
      strategy: the strategy of the run.

    Raises:
      InputError: the batches have no static size, cannot be cut into equal
        slices, or are too few. If TensorFlow cannot count them, that is found
        only when they end.
    """
    dataset, rows_of_host = data
    slice_size(
        static_batch_size(dataset), strategy.num_replicas_in_sync, accumulation
    )
    share = share_of_process(strategy)
    rows = rows_of_host(share) if share.hosts > 1 else None
    dataset = dataset if rows is None else rows
    found = int(dataset.cardinality())
    if found < 0:  # Infinite or unknown.
        found = batches if any(True for _ in dataset.take(1)) else 0
    if found < batches:
        raise InputError(
            f"the training data have {found} batches, fewer than the {batches} "
            "steps to do; repeat the dataset or lower num_train_steps"
        )


def share_of_process(strategy: tf.distribute.Strategy) -> HostShare:
    """Returns which of the workers this process is; one controls a TPU pod."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return WHOLE
    resolver = strategy.cluster_resolver
    cluster = resolver.cluster_spec().as_dict()
    chiefs, workers = (len(cluster.get(x, ())) for x in ("chief", "worker"))
    before = chiefs if resolver.task_type == "worker" else 0
    return HostShare(before + resolver.task_id, chiefs + workers)
