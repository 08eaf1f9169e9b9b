"""Noticing that a run diverges, and going back to before it did."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from absl import logging

from albert_tf.training.checkpoints import Checkpoints
from albert_tf.training.rollbacks import Rollback, batch_of
from albert_tf.training.training_config import TrainingConfig

# So many rollbacks have not led to a checkpoint from behind the steps that
# diverged; the next would not either.
_MOST_ROLLBACKS = 3


class Divergence(Exception):
    """A step after which training on makes no sense.

    Attributes:
      update: its number, from 0.
      reason: what is wrong, for a sentence.
      batch_size: examples of a batch.
    """

    def __init__(self, update: int, reason: str, batch_size: int):
        super().__init__(f"{reason} at step {update + 1}")
        self.update = update
        self.reason = reason
        self.batch_size = batch_size


def find_divergence(
    rows: np.ndarray, max_loss: float = 0.0
) -> tuple[int, str] | None:
    """Finds the first step whose loss or gradient norm is not acceptable.

    Args:
      rows: float [steps, rows, 2], what the steps measured: the loss first, the
        gradient norm last.
      max_loss: the largest loss that is accepted; 0 for any that is finite.

    Returns:
      The offset of the step and what is wrong; None if nothing is.
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


def go_back(
    divergence: Divergence,
    config: TrainingConfig,
    checkpoints: Checkpoints | None,
    synchronize: Callable[[], object],
) -> int:
    """Restores what was before a divergence, if the run is to go on.

    The bad window, the batch of the divergence and those before it, is left out
    from now on: where a loss explodes, the step that shows it is rarely the one
    that caused it (PaLM, arXiv:2204.02311, section 5.1). The newest checkpoint
    from before the window is restored and written again with the rollback in
    it. Which checkpoint that is does not matter to the weights: the run ends as
    one whose data never had these batches.

    Args:
      divergence: what happened.
      config: whether to go back, and how far.
      checkpoints: those of the run.
      synchronize: waits for the other workers.

    Returns:
      The step to go on from.

    Raises:
      FloatingPointError: the run is to stop, or going back is of no use.
    """
    update, size = divergence.update, divergence.batch_size
    rollbacks = () if checkpoints is None else checkpoints.rollbacks
    batch = batch_of(update, rollbacks)
    what = (
        f"{divergence} (batch {batch} of the data, from 0: examples "
        f"{batch * size} to {(batch + 1) * size - 1} in the order of training)"
    )
    if config.on_divergence == "stop" or checkpoints is None:
        raise FloatingPointError(
            f"{what}; what is saved is from before. Lower the learning rate, "
            "look at that batch, or use on_divergence=rollback"
        ) from None
    first = max(0, update + 1 - config.rollback_window)
    # The chief may still be writing what all are to list and read.
    checkpoints.wait()
    synchronize()
    newest = max(checkpoints.steps(), default=0)
    in_vain = [r for r in rollbacks if r.step > newest]
    if len(in_vain) >= _MOST_ROLLBACKS:
        raise FloatingPointError(
            f"{what}; {len(in_vain)} rollbacks since the checkpoint of step "
            f"{newest} did not help. Lower the learning rate"
        ) from None
    step = checkpoints.restore_latest(at_most=first)
    if step is None:
        raise FloatingPointError(
            f"{what}; there is no checkpoint of step {first} or before to roll "
            "back to"
        ) from None
    # All have read it before the chief writes it again.
    synchronize()
    rollback = Rollback(update + 1, batch_of(first, rollbacks), batch)
    checkpoints.rewrite(step, (*rollbacks, rollback))
    logging.warning(
        "%s; going back to step %d and leaving out batches %d to %d",
        what,
        step,
        rollback.first_batch,
        rollback.last_batch,
    )
    return step
