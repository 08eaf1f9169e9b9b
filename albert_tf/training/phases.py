"""Phases of a run: consecutive steps with their own data and loss."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Sequence

import tensorflow as tf

from albert_tf.training.checkpoints import Rollback
from albert_tf.training.divergence import batches_from
from albert_tf.training.input import Batches, HostShare, SharedBatches
from albert_tf.training.loss import Loss


@dataclasses.dataclass(frozen=True)
class TrainingPhase:
    """Consecutive steps of a run that train alike.

    Weights, moments, averages, loss scale and learning rates go on from one
    phase to the next. The step is traced anew for each, so that its batches may
    have other shapes.

    Attributes:
      first_step: updates done before it.
      dataset_fn: returns the global batches of the phase from a given number
        (from 0) on: of a fixed size, and enough of them. Update `first_step +
        k` has batch k, or a later one if rollbacks have skipped some. With
        `SharedBatches` each of several hosts reads its own rows.
      loss: the loss and its metrics.
      gradient_accumulation_steps: micro-batches of a replica.
      flops_per_example: operations of the matrix products for an example,
        forward and backward; None: the share of the peak is not logged.
      name: what the log calls it.
    """

    first_step: int
    dataset_fn: Callable[[int], tf.data.Dataset]
    loss: Loss
    gradient_accumulation_steps: int = 1
    flops_per_example: int | None = None
    name: str = ""

    def batches(self, update: int, rollbacks: Iterable[Rollback]) -> Batches:
        """Returns the batches of the updates from `update` (of the run) on."""

        def after_rollbacks(
            read: Callable[[int], tf.data.Dataset],
        ) -> tf.data.Dataset:
            return batches_from(
                lambda number: read(number - self.first_step), update, rollbacks
            )

        def rows_of_host(share: HostShare) -> tf.data.Dataset | None:
            if not isinstance(self.dataset_fn, SharedBatches):
                return None
            read = self.dataset_fn.of_host(share)
            return None if read is None else after_rollbacks(read)

        return after_rollbacks(self.dataset_fn), rows_of_host


class PhaseSequence:
    """The phases of a run, in their order.

    Args:
      phases: the phases.
      num_train_steps: steps of the run.

    Raises:
      ValueError: the first does not begin with the run, or one ends where it
        begins.
    """

    def __init__(self, phases: Sequence[TrainingPhase], num_train_steps: int):
        steps = [*(phase.first_step for phase in phases), num_train_steps]
        if steps[0] != 0 or any(a >= b for a, b in itertools.pairwise(steps)):
            raise ValueError(
                f"first_step of the phases, and num_train_steps: {steps} must "
                "ascend from 0"
            )
        self._phases = tuple(phases)
        self._ends = steps[1:]

    def __len__(self) -> int:
        return len(self._phases)

    def at(self, step: int) -> tuple[TrainingPhase, int]:
        """Returns the phase of the update `step` (from 0), and its end."""
        return next(
            (phase, end) for _, phase, end in self.remaining(step) if step < end
        )

    def remaining(self, step: int) -> list[tuple[int, TrainingPhase, int]]:
        """Returns first update to do, phase and end of those not yet done."""
        return [
            (max(step, phase.first_step), phase, end)
            for phase, end in zip(self._phases, self._ends, strict=True)
            if step < end
        ]

    def number(self, phase: TrainingPhase) -> int:
        """Returns the number of a phase, from 1."""
        return self._phases.index(phase) + 1

    def describe(self, step: int) -> str:
        """Returns a line for the log on the phase of the update `step`."""
        phase, end = self.at(step)
        return (
            f"phase {self.number(phase)} of {len(self)}, steps "
            f"{phase.first_step + 1:,} to {end:,}: {phase.name}"
        )
