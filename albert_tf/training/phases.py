"""Phases of a run: consecutive steps with their own data and loss."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence

import tensorflow as tf

from albert_tf.training.config import BatchRange
from albert_tf.training.divergence import batches_from
from albert_tf.training.input import GlobalBatches
from albert_tf.training.loss import Loss


@dataclasses.dataclass(frozen=True)
class TrainingPhase:
    """Consecutive steps of a run with the same data and loss.

    Weights, moments, averages, loss scale and learning rate continue from one
    phase to the next, except for what `begin` changes. The train step is traced
    once per phase, so each phase can have its own batch shapes.

    Attributes:
      first_step: number of updates before the phase.
      dataset_fn: `dataset_fn(first_batch)` returns the global batches of the
        phase from number `first_batch` (from 0) on, all of one size and enough
        for all steps. Update `first_step + k` trains on batch k, or on a later
        one if batches are skipped.
      loss: the loss and its metrics.
      gradient_accumulation_steps: micro-batches per replica.
      flops_per_example: FLOPs of the matrix products for one example, forward
        and backward; None: their rate is not logged.
      name: name of the phase in the log.
      num_shards: equal shards of each batch that can be read independently. A
        host reads its own rows if the number of hosts divides `num_shards`:
        `dataset_fn(first_batch, input_context)` then returns these rows.
      begin: changes the variables of the run before the first step of the
        phase, as a function of their values, and returns a line for the log. It
        is called with `training_variables`, also when the run resumes from the
        checkpoint at the end of the previous phase.
      evaluate: returns metrics of the model that the phase trains; None: that
        of `Trainer.fit`.
    """

    first_step: int
    dataset_fn: Callable[..., tf.data.Dataset]
    loss: Loss
    gradient_accumulation_steps: int = 1
    flops_per_example: int | None = None
    name: str = ""
    num_shards: int = 1
    begin: Callable[[Mapping[str, tf.Variable]], str] | None = None
    evaluate: Callable[[], Mapping[str, float]] | None = None

    def batches(
        self, update: int, skipped: Iterable[BatchRange]
    ) -> GlobalBatches:
        """Returns the batches from that of `update` (of the run) on."""

        def read(*input_context: tf.distribute.InputContext) -> tf.data.Dataset:
            return batches_from(
                lambda number: self.dataset_fn(
                    number - self.first_step, *input_context
                ),
                update,
                skipped,
            )

        def per_host_fn(
            context: tf.distribute.InputContext,
        ) -> tf.data.Dataset | None:
            if self.num_shards % context.num_input_pipelines:
                return None
            return read(context)

        return GlobalBatches(read(), per_host_fn)


class PhaseSequence:
    """The phases of a run, in order.

    Raises:
      ValueError: if the first phase does not begin at step 0, or a phase has no
        steps.
    """

    def __init__(self, phases: Sequence[TrainingPhase], num_train_steps: int):
        steps = [*(phase.first_step for phase in phases), num_train_steps]
        if steps[0] != 0 or any(a >= b for a, b in itertools.pairwise(steps)):
            raise ValueError(
                "first_step of the phases and num_train_steps must increase "
                f"from 0, not {steps}"
            )
        self._phases = tuple(phases)
        self._ends = steps[1:]

    def __len__(self) -> int:
        return len(self._phases)

    def at(self, step: int) -> tuple[TrainingPhase, int]:
        """Returns the phase of update `step` (from 0), and its end."""
        return next(
            (phase, end) for _, phase, end in self.remaining(step) if step < end
        )

    def of_checkpoint(self, step: int) -> TrainingPhase:
        """Returns the phase that ends with the checkpoint of a step, or has it.

        At a boundary, that is the phase before.
        """
        return self.at(max(step - 1, 0))[0]

    def remaining(self, step: int) -> list[tuple[int, TrainingPhase, int]]:
        """Returns the phases to train, as (first update, phase, end)."""
        return [
            (max(step, phase.first_step), phase, end)
            for phase, end in zip(self._phases, self._ends, strict=True)
            if step < end
        ]

    def number(self, phase: TrainingPhase) -> int:
        """Returns the number of a phase, from 1."""
        return self._phases.index(phase) + 1

    def describe(self, step: int) -> str:
        """Returns a log line about the phase of update `step`."""
        phase, end = self.at(step)
        return (
            f"phase {self.number(phase)} of {len(self)}, steps "
            f"{phase.first_step + 1:,} to {end:,}: {phase.name}"
        )
