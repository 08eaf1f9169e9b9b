"""When the checkpoints of a run are due."""

from __future__ import annotations

import time
from collections.abc import Callable

from albert_tf.training.config import TrainingConfig


class SaveTimer:
    """Tells when a checkpoint is due: after some steps, or some minutes.

    Args:
      config: settings of the run.
      total: sums a number over all workers; see `sum_over_replicas`.
    """

    def __init__(self, config: TrainingConfig, total: Callable[[float], float]):
        self._steps = config.save_checkpoints_steps
        self._seconds = 60 * config.save_checkpoints_minutes
        self._total = total
        self._since = time.monotonic()

    def restart(self) -> None:
        """Counts the minutes from now on."""
        self._since = time.monotonic()

    def is_due(self, step: int) -> bool:
        """Returns whether a checkpoint is due after `step` updates.

        All workers save as soon as the clock of any of them says so.
        """
        elapsed = time.monotonic() - self._since
        late = bool(self._seconds) and elapsed >= self._seconds
        return bool(self._total(late)) or step % self._steps == 0
