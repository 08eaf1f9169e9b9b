"""Going back after a divergence, and which batches are left out from then on.

The batches of a run are those of its data, 0, 1, 2, ..., without what rollbacks
have left out; so a run that was rolled back ends as one whose data never had
those batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import tensorflow as tf


class Rollback(NamedTuple):
    """One rollback: what diverged, and what was left out for it.

    Attributes:
      step: the update that diverged, counted from 1.
      first_batch: the first batch of the data that was left out, from 0.
      last_batch: the last one: that of the update that diverged.
    """

    step: int
    first_batch: int
    last_batch: int


def batch_of(update: int, rollbacks: Iterable[Rollback]) -> int:
    """Returns which batch of the data update `update` (both from 0) has."""
    left_out = {
        batch
        for rollback in rollbacks
        for batch in range(rollback.first_batch, rollback.last_batch + 1)
    }
    batch = update
    for other in sorted(left_out):
        batch += other <= batch
    return batch


def batches_from(
    dataset_fn: Callable[[int], tf.data.Dataset],
    update: int,
    rollbacks: Iterable[Rollback],
) -> tf.data.Dataset:
    """Returns the batches of the updates from `update` (from 0) on.

    Args:
      dataset_fn: gives the batches of the data from a number on.
      update: the first one to do.
      rollbacks: what is left out.
    """
    first = batch_of(update, rollbacks)
    dataset = dataset_fn(first)
    later = [(r.first_batch, r.last_batch) for r in rollbacks]
    later = [(begin, end) for begin, end in later if end >= first]
    if not later:
        return dataset
    begins, ends = np.array(later, np.int64).T

    def stays(number, _):
        inside = (begins <= number) & (number <= ends)
        return ~tf.reduce_any(inside)

    numbered = dataset.enumerate(first).filter(stays)
    return numbered.map(lambda _, batch: batch)
