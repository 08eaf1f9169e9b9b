"""Detection of divergence, and rollbacks.

A run trains on batches 0, 1, 2, ... of its data, except those that rollbacks
skip. So a run that was rolled back ends with the same weights as one whose data
never had these batches.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

import numpy as np
import tensorflow as tf

from albert_tf.training.checkpoints import Checkpoints, Rollback
from albert_tf.training.config import TrainingConfig

_logger = logging.getLogger(__name__)

# Give up after this many rollbacks without a checkpoint beyond the divergence.
_MAX_ROLLBACKS = 3


class Divergence(Exception):
    """Raised for a step with a non-finite or too large loss or gradient.

    Attributes:
      update: number of the step, from 0.
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


def roll_back(
    divergence: Divergence,
    config: TrainingConfig,
    checkpoints: Checkpoints | None,
    synchronize: Callable[[], object],
    *,
    batch_size: int,
    first_step: int = 0,
) -> int:
    """Rolls back to a checkpoint from before a divergence, if configured to.

    The batch that diverged and the `config.rollback_window - 1` batches before
    it are skipped from now on: the step whose loss explodes is rarely the one
    that caused it (PaLM, arXiv:2204.02311, section 5.1). The newest checkpoint
    from before these batches is restored, and rewritten with the rollback. The
    final weights do not depend on which checkpoint that is.

    Args:
      divergence: the divergence.
      config: settings of the run.
      checkpoints: the checkpoints of the run, if any.
      synchronize: waits for the other workers.
      batch_size: examples per global batch, for the error message.
      first_step: first update of the phase, for the error message.

    Returns:
      The step to continue from.

    Raises:
      FloatingPointError: if the run has to stop, or rolling back does not help.
    """
    update = divergence.update
    rollbacks = () if checkpoints is None else checkpoints.rollbacks
    batch = batch_of(update, rollbacks)
    number = batch - first_step
    source = "the phase's" if first_step else "the"
    first_example = number * batch_size
    what = (
        f"{divergence} (batch {number} of {source} data, from 0: examples "
        f"{first_example} to {first_example + batch_size - 1} in the order of "
        "training)"
    )
    if config.on_divergence == "stop" or checkpoints is None:
        raise FloatingPointError(
            f"{what}; the last checkpoint is from before. Lower the learning "
            "rate, inspect that batch, or use on_divergence=rollback"
        ) from None
    first = max(0, update + 1 - config.rollback_window)
    # The chief may still be writing a checkpoint that all workers list.
    checkpoints.wait()
    synchronize()
    newest = max(checkpoints.steps(), default=0)
    failed = [r for r in rollbacks if r.step > newest]
    if len(failed) >= _MAX_ROLLBACKS:
        raise FloatingPointError(
            f"{what}; {len(failed)} rollbacks since the checkpoint of step "
            f"{newest} did not help. Lower the learning rate"
        ) from None
    step = checkpoints.restore_latest(at_most=first)
    if step is None:
        raise FloatingPointError(
            f"{what}; there is no checkpoint of step {first} or earlier to "
            "roll back to"
        ) from None
    # The chief rewrites it only after all workers have read it.
    synchronize()
    rollback = Rollback(update + 1, batch_of(first, rollbacks), batch)
    checkpoints.rewrite(step, (*rollbacks, rollback))
    _logger.warning(
        "%s; going back to step %d and skipping batches %d to %d",
        what,
        step,
        rollback.first_batch,
        rollback.last_batch,
    )
    return step


def batch_of(update: int, rollbacks: Iterable[Rollback]) -> int:
    """Returns the batch of the data that an update trains on, both from 0."""
    skipped = {
        batch
        for rollback in rollbacks
        for batch in range(rollback.first_batch, rollback.last_batch + 1)
    }
    batch = update
    for other in sorted(skipped):
        batch += other <= batch
    return batch


def batches_from(
    dataset_fn: Callable[[int], tf.data.Dataset],
    update: int,
    rollbacks: Iterable[Rollback],
) -> tf.data.Dataset:
    """Returns the batches from that of `update` on, without skipped ones.

    Args:
      dataset_fn: returns the batches of the data from a given number on.
      update: the next update, from 0.
      rollbacks: the rollbacks of the run.
    """
    first = batch_of(update, rollbacks)
    dataset = dataset_fn(first)
    later = [(r.first_batch, r.last_batch) for r in rollbacks]
    later = [(begin, end) for begin, end in later if end >= first]
    if not later:
        return dataset
    begins, ends = np.array(later, np.int64).T

    def is_kept(number, _):
        inside = (begins <= number) & (number <= ends)
        return ~tf.reduce_any(inside)

    numbered = dataset.enumerate(first).filter(is_kept)
    return numbered.map(lambda _, batch: batch)
