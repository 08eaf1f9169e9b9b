"""Training and prediction batches of features."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from albert_tf.array_ops import ArrayOps
from albert_tf.errors import InputError
from albert_tf.finetuning.features import Features
from albert_tf.models.base import MASKED_LM_POSITIONS
from albert_tf.tensor_ops import TensorOps, fold_in
from albert_tf.training.input import batch_options, shuffle


# Without AutoGraph: no function of the pipeline branches on tensors.
@tf.autograph.experimental.do_not_convert
def training_batches(
    data: Features,
    *,
    batch_size: int,
    seed: int,
    start_step: int = 0,
    fixed_length: int | None = None,
    window_batches: int = 50,
) -> tf.data.Dataset:
    """Returns an endless dataset of batches of sequences of similar length.

    Each epoch has every example once, in an order that depends on (seed, epoch)
    only: examples are shuffled, sorted by length within windows of
    `window_batches` batches, and the batches of each window are shuffled. A
    batch may contain the last examples of an epoch and the first of the next.
    So batch k is the same whether a run starts at step 0 or resumes at k, and
    whether or not batches have a fixed length.

    The pipeline consists of TensorFlow operations only, so that other hosts of
    a cluster can run it.

    Args:
      data: training features; without columns of strings.
      batch_size: number of examples per batch, over all replicas.
      seed: seed of the order of the examples.
      start_step: number of batches to skip, at no cost.
      fixed_length: length to pad all sequences to, for static shapes (TPU,
        XLA); None for the longest sequence of each batch.
      window_batches: 1 disables sorting.

    Raises:
      InputError: if there are no examples, or a sequence is longer than
        `fixed_length`.
    """
    if not data.num_examples:
        raise InputError("training data: no examples; give at least one")
    _check_length(data, fixed_length)
    first_epoch, offset = divmod(start_step * batch_size, data.num_examples)
    order = _epoch_order(data.example_lengths, batch_size, seed, window_batches)

    def examples_of(epoch: tf.Tensor) -> tf.Tensor:
        return order(epoch)[tf.where(epoch == first_epoch, offset, 0) :]

    return (
        tf.data.Dataset.counter(first_epoch)
        .map(examples_of)
        .prefetch(1)
        .rebatch(batch_size, drop_remainder=True)
        .map(
            data.padder(TensorOps(), fixed_length),
            num_parallel_calls=tf.data.AUTOTUNE,
        )
        .prefetch(tf.data.AUTOTUNE)
        .with_options(batch_options())
    )


def prediction_batches(
    data: Features, *, batch_size: int, fixed_length: int | None = None
) -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
    """Yields batches of sequences of similar length, the longest first.

    Args:
      batch_size: number of examples per batch; the last one may have fewer.
      fixed_length: see `training_batches`.

    Yields:
      The indices of the examples, int64 `[batch]`, which restore the order with
      `outputs[indices] = model(batch)`; and the batch, see `Features.pad`.
      Without a fixed length, `masked_lm_positions` are as wide as the row of
      the batch that has the most.
    """
    _check_length(data, fixed_length)
    order = np.argsort(-data.example_lengths, kind="stable")
    pad = data.padder(ArrayOps(), fixed_length)
    for first in range(0, len(order), batch_size):
        indices = order[first : first + batch_size]
        batch = pad(indices)
        if fixed_length is None and MASKED_LM_POSITIONS in batch:
            positions = batch[MASKED_LM_POSITIONS]
            most = np.count_nonzero(positions, axis=1).max(initial=0)
            batch[MASKED_LM_POSITIONS] = positions[:, :most]
        yield indices, batch


def _check_length(data: Features, fixed_length: int | None) -> None:
    longest = int(data.lengths.max(initial=0))
    if fixed_length is not None and longest > fixed_length:
        raise InputError(
            f"fixed_length={fixed_length}: a sequence has {longest} tokens; "
            "use at least as many, or a smaller max_seq_length"
        )


def _epoch_order(
    lengths: np.ndarray, batch_size: int, seed: int, window_batches: int
) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns a function from an epoch to the order of its examples."""
    count, longest = len(lengths), int(lengths.max())
    lengths = TensorOps().host(lengths)
    seed = tf.constant([seed, 0], tf.int64)

    def order(epoch: tf.Tensor) -> tf.Tensor:
        epoch_seed = fold_in(seed, epoch)
        examples = shuffle(tf.range(count, dtype=tf.int64), epoch_seed, 0)
        # The first examples complete the last batch of the previous epoch, and
        # the last ones begin a batch that the next epoch completes.
        begin = tf.minimum(-epoch * count % batch_size, count)
        batches = (count - begin) // batch_size
        end = begin + batches * batch_size
        whole = examples[begin:end]
        window = tf.range(end - begin) // (batch_size * window_batches)
        keys = window * (longest + 1) + tf.gather(lengths, whole)
        whole = tf.gather(whole, tf.argsort(keys, stable=True))
        # Shuffled, then sorted stably by window: shuffled within windows.
        numbers = shuffle(tf.range(batches), epoch_seed, 1)
        by_window = tf.argsort(numbers // window_batches, stable=True)
        whole = tf.reshape(whole, [-1, batch_size])
        whole = tf.gather(whole, tf.gather(numbers, by_window))
        whole = tf.reshape(whole, [-1])
        return tf.concat([examples[:begin], whole, examples[end:]], 0)

    return order
