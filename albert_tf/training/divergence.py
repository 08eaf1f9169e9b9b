"""Detection of divergence, and batches that a run skips.

A run trains on batches 0, 1, 2, ... of its data, except those that it skips
(`TrainingConfig.skip_batches`). It ends with the same weights as a run whose
data never had these batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training.config import BatchRange

# The step whose loss explodes is rarely the one that caused it: PaLM skipped
# 200 to 500 batches (arXiv:2204.02311, section 5.1).
_SUGGESTED = 100


class Divergence(Exception):
    """Raised for a step with a non-finite or too large loss or gradient.

    `update` is the number of the step, from 0.
    """

    def __init__(self, update: int, reason: str):
        super().__init__(f"{reason} at step {update + 1}")
        self.update = update


def find_divergence(
    rows: np.ndarray, max_loss: float = 0.0
) -> tuple[int, str] | None:
    """Finds the first step whose loss or gradient norm is not acceptable.

    Args:
      rows: float `[steps, rows, 2]`, the results of the steps: the loss first,
        the gradient norm last.
      max_loss: the largest acceptable loss; 0: any finite loss.

    Returns:
      The offset of the step, and the reason; None if all steps are fine.
    """
    losses, norms = rows[:, 0, 0], rows[:, -1, 0]
    bad_loss = ~np.isfinite(losses)
    if max_loss:
        bad_loss |= losses > max_loss
    bad = bad_loss | ~np.isfinite(norms)
    if not bad.any():
        return None
    offset = int(np.argmax(bad))
    if not bad_loss[offset]:
        return offset, f"the gradient norm is {norms[offset]}"
    loss, bound = losses[offset], ""
    if max_loss and loss > max_loss:
        bound = f", above max_loss={max_loss:g},"
    return offset, f"the loss is {loss:g}{bound}"


def explain_divergence(
    divergence: Divergence,
    checkpoint: int,
    skipped: Iterable[BatchRange],
    *,
    batch_size: int,
    first_step: int = 0,
) -> str:
    """Returns what diverged, and how to go on from a checkpoint (0: none).

    `first_step` is the first update of the phase.
    """
    skipped = tuple(skipped)
    batch = batch_of(divergence.update, skipped)
    number = batch - first_step
    source = "the phase's" if first_step else "the"
    example = number * batch_size
    first = max(batch + 1 - _SUGGESTED, batch_of(checkpoint, skipped))
    go_on = "there is no checkpoint. Start again and skip"
    if checkpoint:
        go_on = f"the last checkpoint is of step {checkpoint}. To go on, skip"
    return (
        f"{divergence} (batch {number} of {source} data, from 0: examples "
        f"{example} to {example + batch_size - 1} in the order of training); "
        f"{go_on} the batches that led here with "
        f"--skip_batches={first}-{batch}; or start again with a lower learning "
        "rate"
    )


def batches_to_skip(
    recorded: Iterable[BatchRange], asked: Iterable[BatchRange], step: int
) -> tuple[BatchRange, ...]:
    """Returns the batches that a run skips from the checkpoint of `step` on.

    These are those that it has `recorded`, and those that are `asked` for. If
    it was trained on one of the latter already, it is an `InputError`.
    """
    recorded = tuple(recorded)
    added = [each for each in asked if each not in recorded]
    reached = batch_of(step, recorded)
    for first, last in added:
        if first < reached:
            raise InputError(
                f"skip_batches={first}-{last}: the checkpoint of step {step} "
                f"was trained on batches before {reached} already; skip later "
                "ones, or remove the checkpoint to go back to an earlier one"
            )
    return (*recorded, *added)


def batch_of(update: int, skipped: Iterable[BatchRange]) -> int:
    """Returns the batch of the data that an update trains on, both from 0."""
    batch, end = update, 0
    for first, last in sorted(skipped):
        first = max(first, end)  # Ranges may overlap.
        if first <= min(batch, last):
            batch += last + 1 - first
        end = max(end, last + 1)
    return batch


def batches_from(
    dataset_fn: Callable[[int], tf.data.Dataset],
    update: int,
    skipped: Iterable[BatchRange],
) -> tf.data.Dataset:
    """Returns the batches from that of `update` on, without skipped ones.

    `dataset_fn` returns the batches of the data from a given number on.
    """
    first = batch_of(update, skipped)
    dataset = dataset_fn(first)
    later = [(begin, end) for begin, end in skipped if end >= first]
    if not later:
        return dataset
    begins, ends = np.array(later, np.int64).T

    def is_kept(number, _):
        inside = (begins <= number) & (number <= ends)
        return ~tf.reduce_any(inside)

    numbered = dataset.enumerate(first).filter(is_kept)
    return numbered.map(lambda _, batch: batch)
