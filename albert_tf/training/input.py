"""Global batches, split into one slice per replica."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.python.data.experimental.ops.distribute import replicate

from albert_tf.errors import InputError


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


def distribute(
    strategy: tf.distribute.Strategy,
    dataset: tf.data.Dataset,
    *,
    endless: bool = False,
) -> Any:
    """Distributes a dataset of global batches.

    Replica r of N gets examples `r * batch // N` to `(r + 1) * batch // N` of
    every batch, in this order with every strategy. TensorFlow by itself shards
    by files if it finds any, so several workers would see other batches than
    one. Every worker reads the whole dataset.

    Args:
      strategy: any synchronous strategy.
      dataset: nested tensors `[batch, ...]`. The last batch may be smaller; a
        replica's slice of it may then be empty.
      endless: declare that no batch is the last one; to read beyond a last
        one is a `FailedPreconditionError`. Without this, the workers add up a
        number for each batch, to agree on which is the last.

    Returns:
      An iterable of arguments for `strategy.run`.
    """

    def declared(dataset: tf.data.Dataset) -> tf.data.Dataset:
        if not endless:
            return dataset
        infinite = tf.data.INFINITE_CARDINALITY
        return dataset.apply(tf.data.experimental.assert_cardinality(infinite))

    if strategy.num_replicas_in_sync == 1:
        return strategy.experimental_distribute_dataset(declared(dataset))
    return strategy.distribute_datasets_from_function(
        lambda context: declared(slices_of_host(dataset, context))
    )


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
    dataset: tf.data.Dataset,
    batches: int,
    accumulation: int,
    strategy: tf.distribute.Strategy,
) -> None:
    """Checks training data, and reads the first batch.

    Args:
      dataset: global batches.
      batches: the number of batches that will be read.
      accumulation: micro-batches of a replica.
      strategy: the strategy of the run.

    Raises:
      InputError: the batches have no static size, cannot be cut into equal
        slices, or are too few. If TensorFlow cannot count them, that is found
        only when they end.
    """
    slice_size(
        static_batch_size(dataset), strategy.num_replicas_in_sync, accumulation
    )
    found = int(dataset.cardinality())
    if found < 0:  # Infinite or unknown.
        found = batches if any(True for _ in dataset.take(1)) else 0
    if found < batches:
        raise InputError(
            f"the training data have {found} batches, fewer than the {batches} "
            "steps to do; repeat the dataset or lower num_train_steps"
        )
