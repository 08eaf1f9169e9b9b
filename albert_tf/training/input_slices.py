"""Global batches cut into one slice a replica."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.python.data.experimental.ops.distribute import replicate

from albert_tf.errors import InputError


def distribute(
    strategy: tf.distribute.Strategy, dataset: tf.data.Dataset
) -> Any:
    """Distributes a dataset of global batches.

    Replica r of N gets examples `r * batch // N` to `(r + 1) * batch // N` of
    every batch, in this order on every strategy. TensorFlow's own way shards
    by files where it finds some, so that the batches of several workers would
    not be those of one. Every worker reads the whole dataset.

    Args:
      strategy: any synchronous strategy.
      dataset: nested tensors `[batch, ...]`. The last batch may be smaller; a
        replica's slice of it may then be empty.

    Returns:
      An iterable of what `strategy.run` takes.
    """
    if strategy.num_replicas_in_sync == 1:
        return strategy.experimental_distribute_dataset(dataset)
    return strategy.distribute_datasets_from_function(
        lambda context: slices_of_host(dataset, context)
    )


def slices_of_host(
    dataset: tf.data.Dataset, context: tf.distribute.InputContext
) -> tf.data.Dataset:
    """Returns the slices for the replicas that one host feeds, in turn.

    Args:
      dataset: global batches; see `distribute`.
      context: which host of how many, and the number of all replicas.

    Returns:
      Dataset of slices; for each batch one for every replica of the host. Where
      the batches have a size that the replicas divide, so have the slices: a
      TPU compiles for it.
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
    """Returns the dataset on the host whose device scope this is.

    The hosts of a TPU pod are run from one process, and what was made on its
    own host cannot be read on the others; it is made again there. So does
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
      InputError: the batches of the dataset have no fixed, common size.
    """
    sizes = {
        spec.shape[0] if spec.shape.rank else None
        for spec in tf.nest.flatten(dataset.element_spec)
    }
    if len(sizes) != 1 or None in sizes:
        raise InputError(
            "training batches must have a fixed size, but the dataset yields "
            f"{dataset.element_spec}; use batch(size, drop_remainder=True)"
        )
    return sizes.pop()


def slice_size(batch_size: int, replicas: int, accumulation: int) -> int:
    """Returns the examples of one micro-batch.

    Raises:
      InputError: the global batch cannot be cut into equal slices.
    """
    slices = replicas * accumulation
    if batch_size % slices:
        raise InputError(
            f"global batch size {batch_size} must be a multiple of {slices} = "
            f"{replicas} replicas x gradient_accumulation_steps={accumulation}"
        )
    return batch_size // slices
