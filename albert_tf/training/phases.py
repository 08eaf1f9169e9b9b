"""Phases of a run: consecutive steps with their own data and loss."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training.checkpoints import Rollback
from albert_tf.training.divergence import Divergence, batches_from
from albert_tf.training.input import (
    Batches,
    HostShare,
    SharedBatches,
    distribute,
    slice_size,
)
from albert_tf.training.logging import Interval
from albert_tf.training.loss import Loss
from albert_tf.training.train_step import TrainStep, make_train_loop

# The second if the dataset was expected to be infinite.
_OUT_OF_DATA = tf.errors.OutOfRangeError, tf.errors.FailedPreconditionError
# In the text of the second of a part of the dataset, such as a file.
MISCOUNTED = re.compile(r"expected to contain \d+ elements")


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


class PhaseLoop:
    """A phase under way: its step, traced once, and the means of its metrics.

    Args:
      phase: the phase.
      batch_size: examples of its global batches.
      strategy: the strategy of the step.
      schedule: step -> learning rate.
      make_train_step: returns the step of a loss, for so many micro-batches of
        so many examples.

    Attributes:
      phase: the phase.
    """

    def __init__(
        self,
        phase: TrainingPhase,
        batch_size: int,
        strategy: tf.distribute.Strategy,
        schedule: Callable[[tf.Tensor], tf.Tensor],
        make_train_step: Callable[[Loss, int, int], TrainStep],
    ):
        self.phase = phase
        self._batch_size = batch_size
        self._strategy = strategy
        accumulation = phase.gradient_accumulation_steps
        replicas = strategy.num_replicas_in_sync
        self._train_step = make_train_step(
            phase.loss,
            accumulation,
            slice_size(batch_size, replicas, accumulation),
        )
        self._run = make_train_loop(strategy, self._train_step, schedule)

    def read(self, data: Batches) -> None:
        """Goes on with the first of these batches."""
        dataset, rows_of_host = data
        self._iterator = iter(
            distribute(
                self._strategy,
                dataset,
                endless=True,
                rows_of_host=rows_of_host,
            )
        )
        self._interval = Interval(self._batch_size)

    def run(self, step: int, end: int) -> tuple[np.ndarray, float]:
        """Runs the steps from `step` (from 0) up to, but not, `end`.

        Returns:
          float [steps, rows, 2], see `TrainStep`, and the seconds in which a
          batch was not there yet.

        Raises:
          InputError: the data ended.
        """
        try:
            rows, waited = self._run(
                self._iterator,
                tf.constant(step, tf.int32),
                tf.constant(end - step, tf.int32),
            )
            return rows.numpy(), float(waited)
        except _OUT_OF_DATA as error:
            if MISCOUNTED.search(str(error)):
                raise
            raise InputError(
                f"the training data ended between step {step} and {end}; "
                "repeat the dataset or lower num_train_steps"
            ) from error

    def count(self, rows: np.ndarray, seconds: float, waited: float) -> None:
        """Adds steps to the means; see `Interval.add`."""
        self._interval.add(rows, seconds, waited)

    def means(self) -> tuple[dict[str, float], dict[str, float]]:
        """Returns the means since the last call, and the details' apart."""
        metrics = self._interval.read(self._train_step.row_names)
        names = self._train_step.detail_names
        return metrics, {name: metrics.pop(name) for name in names}

    def divergence(self, update: int, reason: str) -> Divergence:
        """Returns what says that an update of the phase is not acceptable."""
        first_step = self.phase.first_step
        return Divergence(update, reason, self._batch_size, first_step)
