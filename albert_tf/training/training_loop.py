"""The loop over steps, with evaluation, checkpoints and logs."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from albert_tf.training.averaging import WeightAverages
from albert_tf.training.callbacks import RunCallbacks
from albert_tf.training.checkpoints import Checkpoints
from albert_tf.training.config import BatchRange, TrainingConfig
from albert_tf.training.divergence import (
    Divergence,
    explain_divergence,
    find_divergence,
)
from albert_tf.training.evaluations import Evaluations
from albert_tf.training.input import (
    GlobalBatches,
    slice_size,
    static_batch_size,
)
from albert_tf.training.logging import MetricsAccumulator, TrainingLog
from albert_tf.training.loss_scale import DynamicLossScale
from albert_tf.training.optimizers import AdamW
from albert_tf.training.phases import PhaseSequence, TrainingPhase
from albert_tf.training.result import TrainingResult
from albert_tf.training.time_budget import TimeBudget
from albert_tf.training.train_step import TrainLoop, TrainStep


@dataclasses.dataclass
class _CurrentPhase:
    """A phase, what trains in it, and metrics since the last line logged."""

    phase: TrainingPhase
    batch_size: int
    train_step: TrainStep
    loop: TrainLoop
    metrics: MetricsAccumulator


@dataclasses.dataclass(kw_only=True)
class TrainingLoop:
    """One call of `Trainer.fit`, once everything is checked.

    Attributes:
      checked: batches that were checked before, by the step of the first.
      mean: averages a number over all workers.
      lines: lines of the log when the run is resumed.
      current: the phase that is trained; None before the first step.
      saved_at: when the last checkpoint was written or training began.
    """

    config: TrainingConfig
    strategy: tf.distribute.Strategy
    model: Any
    optimizer: AdamW
    loss_scale: DynamicLossScale | None
    averages: WeightAverages | None
    phases: PhaseSequence
    variables: Mapping[str, tf.Variable]
    checkpoints: Checkpoints | None
    evaluations: Evaluations
    callbacks: RunCallbacks
    callbacks_stop: Callable[[], bool]
    stop_requested: Callable[[], bool]
    skipped: tuple[BatchRange, ...]
    checked: dict[int, GlobalBatches]
    budget: TimeBudget
    log: TrainingLog
    mean: Callable[[float], float]
    lines: list[dict[str, Any]]
    current: _CurrentPhase | None = None
    saved_at: float = dataclasses.field(default_factory=time.monotonic)

    def explain(self, divergence: Divergence) -> str:
        """Returns the error message of a run that has diverged."""
        assert self.current is not None  # See `_enter_phase`.
        steps: list[int] = []
        if self.checkpoints is not None:
            # The chief may still be writing one.
            self.checkpoints.wait()
            steps = self.checkpoints.steps()
        return explain_divergence(
            divergence,
            max(steps, default=0),
            self.skipped,
            batch_size=self.current.batch_size,
            first_step=self.current.phase.first_step,
        )

    def train(self, restored: int | None) -> TrainingResult:
        """Trains until the last step or a stop.

        `restored` is the step of the restored checkpoint; None if the variables
        have their initial values.

        Raises:
          Divergence: if a step diverges.
        """
        config = self.config
        step, budget, log = restored or 0, self.budget, self.log
        metrics: Mapping[str, float] = {}
        interrupted = False
        if budget.last_decay:
            log.end_at(budget.last_step)
            log.note(budget.describe_decision())
        evaluation = self._catch_up(restored)
        stopped_early = self.evaluations.stops_early(step)
        phase_end = step
        while not (interrupted or stopped_early or budget.is_last(step)):
            if self.current is None or step == phase_end:
                phase_end, self.current = self._enter_phase(step)
            current = self.current
            loop = current.loop
            end = config.next_stop(step, loop.launch_steps)
            end = min(end, phase_end, budget.last_step)
            self.callbacks.begin_epoch(step)
            self._run_steps(current, step, end)
            step = end
            ends = budget.is_last(step)
            interrupted = self.stop_requested() and not ends
            evaluates = ends or config.evaluates_at(step)
            evaluates = evaluates and not interrupted
            save = interrupted or ends or step == phase_end
            save = self._is_due(step) or save
            if budget.decide(step, loop.launch_steps):
                log.end_at(budget.last_step)
                log.note(budget.describe_decision())
                save = True  # A resumed run has to know of it.
            elif warning := budget.warn_of_warmup():
                log.note(warning)
            may_save = save or (config.best_metric and evaluates)
            # Metrics are means since the last log line, so there has to be a
            # line wherever a run may resume.
            if may_save or step % config.log_steps == 0:
                metrics = self._log_training(current, step)
            if save:
                self._save(step)
            if evaluates:
                evaluation = self._evaluate_at(step, saved=save)
                stopped_early = self.evaluations.stops_early(step)
            stopped_early = self.callbacks_stop() or stopped_early
            if stopped_early and not save:
                self._save(step)
        if budget.is_active:
            log.note(budget.describe_end(step))
        return TrainingResult(
            step,
            interrupted,
            metrics,
            evaluation,
            stopped_early,
            self.evaluations.results,
        )

    def _catch_up(self, restored: int | None) -> Mapping[str, float]:
        """Makes up for what a stopped run did not do after its checkpoint."""
        config, step = self.config, restored or 0
        self.evaluations.restore(self.lines, step)
        due = self.budget.is_last(step) or config.evaluates_at(step)
        if due and step not in self.evaluations.results:
            return self._evaluate_at(step, saved=True)
        return {
            name: math.nan if value is None else value
            for name, value in self.evaluations.results.get(step, {}).items()
        }

    def _enter_phase(self, step: int) -> tuple[int, _CurrentPhase]:
        """Prepares training from a step on; returns the end of its phase."""
        phase, end = self.phases.at(step)
        # Building a dataset traces its functions, so reuse the checked one.
        data = self.checked.pop(step, None) or phase.batches(step, self.skipped)
        current = self.current
        if current is None or current.phase is not phase:
            current = self._prepare(phase, static_batch_size(data.dataset))
        current.loop.set_data(data)
        current.metrics = MetricsAccumulator(current.batch_size)
        self.budget.restart_rate()
        if len(self.phases) > 1:
            self.log.note(self.phases.describe(step))
        if phase.begin is not None and step == phase.first_step:
            self.log.note(phase.begin(self.variables))
        return end, current

    def _prepare(self, phase: TrainingPhase, batch_size: int) -> _CurrentPhase:
        micro_batches = phase.gradient_accumulation_steps
        train_step = TrainStep(
            dataclasses.replace(
                self.config, gradient_accumulation_steps=micro_batches
            ),
            self.model,
            phase.loss,
            self.optimizer,
            micro_batch_size=slice_size(
                batch_size, self.strategy.num_replicas_in_sync, micro_batches
            ),
            loss_scale=self.loss_scale,
            averages=self.averages,
        )
        loop = TrainLoop(
            self.strategy,
            train_step,
            self.budget.schedule,
            self.config.steps_per_loop,
        )
        metrics = MetricsAccumulator(batch_size)
        return _CurrentPhase(phase, batch_size, train_step, loop, metrics)

    def _run_steps(self, current: _CurrentPhase, step: int, end: int) -> None:
        """Runs the steps in [`step`, `end`), counted from 0."""
        rows, seconds, waited = current.loop.run(step, end)
        current.metrics.update(rows, seconds, waited)
        if found := find_divergence(rows, self.config.max_loss):
            offset, reason = found
            raise Divergence(step + offset, reason)
        self.log.advance(end - step)

    def _log_training(
        self, current: _CurrentPhase, step: int
    ) -> Mapping[str, float]:
        """Logs and returns the metrics of the steps since the last call."""
        phase, train_step = current.phase, current.train_step
        metrics = current.metrics.result(train_step.row_names)
        names = train_step.detail_names
        details = {name: metrics.pop(name) for name in names}
        if len(self.phases) > 1:
            metrics["phase"] = self.phases.number(phase)
        metrics["learning_rate"] = float(self.budget.schedule(step - 1))
        if self.loss_scale is not None:
            metrics["loss_scale"] = float(self.loss_scale.scale)
        if phase.flops_per_example:
            flops = metrics["examples_per_second"] * phase.flops_per_example
            metrics["gflops_per_second"] = flops / 1e9
        self.log.report(step, "train", metrics, details)
        self.callbacks.report_training(step, metrics)
        return metrics

    def _is_due(self, step: int) -> bool:
        """Returns whether a checkpoint is due, after some steps or minutes."""
        seconds = 60 * self.config.save_checkpoints_minutes
        late = 0 < seconds <= time.monotonic() - self.saved_at
        # All workers save as soon as the clock of any of them says so.
        late = self.mean(late) > 0
        return late or step % self.config.save_checkpoints_steps == 0

    def _save(self, step: int) -> None:
        self.saved_at = time.monotonic()
        if self.checkpoints is None:
            return
        if not self.checkpoints.is_finite():
            raise Divergence(step - 1, "a weight is not finite")
        self.checkpoints.time = self.budget.state
        self.checkpoints.save(step)

    def _evaluate_at(self, step: int, *, saved: bool) -> Mapping[str, float]:
        """Evaluates, and keeps the checkpoint if it is the best so far."""
        began = time.monotonic()
        evaluation, best = self.evaluations.run(step)
        self.budget.add_evaluation(time.monotonic() - began)
        if evaluation:
            self.log.report(step, "eval", evaluation)
        if best:
            if not saved:
                self._save(step)
            self.evaluations.keep(best)
        # Last: the weights are kept even if a callback fails.
        self.callbacks.end_epoch(step, evaluation)
        return evaluation
