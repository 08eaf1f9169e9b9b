"""The training loop: steps, evaluation, checkpoints and logs."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training.averaging import WeightAverages
from albert_tf.training.callbacks import RunCallbacks
from albert_tf.training.checkpoints import (
    assign_values,
    open_checkpoints,
    training_variables,
)
from albert_tf.training.config import BatchRange, TrainingConfig
from albert_tf.training.distribution import check_model
from albert_tf.training.divergence import (
    Divergence,
    batches_to_skip,
    explain_divergence,
    find_divergence,
)
from albert_tf.training.evaluations import Evaluate, Evaluations
from albert_tf.training.input import (
    GlobalBatches,
    check_batches,
    static_batch_size,
)
from albert_tf.training.logging import (
    MetricsAccumulator,
    TrainingLog,
    read_metrics,
)
from albert_tf.training.loss import Loss
from albert_tf.training.loss_scale import DynamicLossScale
from albert_tf.training.optimizers import AdamW
from albert_tf.training.phases import PhaseSequence, TrainingPhase
from albert_tf.training.progress import graceful_stop, print_stop
from albert_tf.training.result import TrainingResult
from albert_tf.training.save_timer import SaveTimer
from albert_tf.training.time_budget import TimeBudget
from albert_tf.training.train_step import TrainLoop
from albert_tf.training.workers import (
    any_worker,
    check_same_step,
    is_chief,
    naming_lost_workers,
    on_chief,
    sum_over_replicas,
)


class Trainer:
    """Trains a model, or resumes its training.

    The final weights are a function of the arguments and the initial weights:
    on deterministic hardware, a run that is killed at any moment and resumed
    ends with bit-identical weights. Gradients are summed over micro-batches and
    replicas and then clipped once, so the number of either changes only the
    rounding. Update k (from 0) has the learning rate `schedule(k)`.

    Args:
      config: settings of the training loop.
      strategy: the strategy to train with; see `make_strategy`.
      model: a Keras model created under `strategy.scope()`.
      loss: the loss and its metrics.
      optimizer: an optimizer that is not built yet.
      schedule: step -> learning rate, both scalar tensors.
      run_dir: folder for checkpoints, `metrics.jsonl` and TensorBoard. Training
        resumes from its newest checkpoint. None: nothing is written.

    Raises:
      InputError: if the model and the settings do not fit together.
      ValueError: if the model was created outside the strategy's scope.
    """

    def __init__(
        self,
        config: TrainingConfig,
        strategy: tf.distribute.Strategy,
        model: Any,
        loss: Loss,
        optimizer: AdamW,
        schedule: Callable[[tf.Tensor], tf.Tensor],
        run_dir: str | os.PathLike[str] | None = None,
    ):
        self._started = time.monotonic()
        check_model(config, strategy, model)
        self._config, self._strategy = config, strategy
        self._model, self._loss = model, loss
        self._optimizer, self._schedule = optimizer, schedule
        self._run_dir = run_dir
        self._chief = is_chief(strategy)
        self._total = sum_over_replicas(strategy)
        self._loss_scale: DynamicLossScale | None = None
        self._averages: WeightAverages | None = None
        with strategy.scope():
            optimizer.build(model.trainable_variables)
            if config.dynamic_loss_scale:
                self._loss_scale = DynamicLossScale()
            if config.ema_decay:
                self._averages = WeightAverages(
                    model.trainable_variables, config.ema_decay
                )
        self._phase: TrainingPhase | None = None  # the current one
        self._checked: dict[int, GlobalBatches] = {}
        self._skipped: tuple[BatchRange, ...] = ()

    def fit(
        self,
        data: Callable[[int], tf.data.Dataset] | Sequence[TrainingPhase],
        *,
        evaluate: Evaluate | None = None,
        start: Callable[[], None] | None = None,
        flops_per_example: int | None = None,
        initial_values: Mapping[str, np.ndarray] | None = None,
        callbacks: Sequence[keras.callbacks.Callback] = (),
    ) -> TrainingResult:
        """Trains to the last step; call it once.

        Args:
          data: the phases of the run, or the `dataset_fn` of its only phase;
            see `TrainingPhase`.
          evaluate: returns metrics of the current model by name; called every
            `config.eval_steps` steps and at the end. With `config.ema_decay`,
            the model has the averaged weights while it runs.
          start: called once the first batch and the checkpoint to resume from
            are read and checked, before anything is written.
          flops_per_example: see `TrainingPhase`. If given, their rate is logged
            as `gflops_per_second`.
          initial_values: values to start a new run with, such as moments of
            another run, under the names of `training_variables`.
          callbacks: Keras callbacks; see `RunCallbacks`.

        Returns:
          The result. On SIGINT or SIGTERM the current steps are finished and
          saved first. Resuming a run that was stopped early does nothing,
          unless `config.early_stopping_patience` has been raised.

        Raises:
          InputError: if arguments and data do not fit together, or the
            checkpoint belongs to another run.
          FloatingPointError: if the run diverges. The last checkpoint is from
            before.
          OSError: if a checkpoint cannot be written. Earlier ones are intact.
          LostWorkerError: if another worker has died.
        """
        config, strategy = self._config, self._strategy
        if config.best_metric and evaluate is None:
            raise InputError("best_metric requires evaluation data")
        if callable(data):
            settings = (config.gradient_accumulation_steps, flops_per_example)
            data = [TrainingPhase(0, data, self._loss, *settings)]
        self._phases = PhaseSequence(data, config.num_train_steps)
        self._variables = training_variables(
            self._model, self._optimizer, self._loss_scale, self._averages
        )
        self._checkpoints = checkpoints = open_checkpoints(
            self._run_dir, config, self._variables, is_writer=self._chief
        )

        def evaluate_of(step: int) -> Evaluate | None:
            own = self._phases.of_checkpoint(step).evaluate or evaluate
            if self._averages is None or own is None:
                return own
            return self._averages.applied(own)

        self._evaluations = Evaluations(config, evaluate_of, checkpoints)
        self._callbacks = RunCallbacks(
            callbacks if self._chief else (), self._model, config
        )
        self._callbacks_stop = any_worker(
            strategy, lambda: self._callbacks.stop
        )
        with (
            naming_lost_workers(strategy),
            graceful_stop() as stop,
            checkpoints or contextlib.nullcontext(),
        ):
            self._stop_requested = any_worker(strategy, stop.is_set)
            step = checkpoints.restore_latest() if checkpoints else None
            check_same_step(strategy, step)
            self._skipped = batches_to_skip(
                checkpoints.skipped if checkpoints else (),
                config.skipped,
                step or 0,
            )
            if checkpoints:
                checkpoints.skipped = self._skipped
            self._budget = TimeBudget(
                config.max_minutes,
                self._schedule,
                config.num_train_steps,
                started=self._started,
                mean=lambda x: self._total(x) / strategy.num_replicas_in_sync,
                state=checkpoints.time if checkpoints else (),
            )
            self._schedule = self._budget.schedule
            if step is None and initial_values:
                names = self._variables.keys() & initial_values.keys()
                given = {name: self._variables[name] for name in names}
                assign_values(given, initial_values, "initial_values")
            remaining = self._phases.remaining(step or 0)
            for first, phase, end in remaining:
                batches = self._checked[first] = self._batches(first, phase)
                micro_batches = phase.gradient_accumulation_steps
                check_batches(batches, end - first, micro_batches, strategy)
            if start is not None:
                start()
            self._callbacks.begin(step or 0)
            try:
                result = self._run(step)
            except Divergence as divergence:
                raise FloatingPointError(self._explain(divergence)) from None
            self._callbacks.end()
            # When `fit` returns, any worker may read what the chief wrote.
            on_chief(
                strategy, checkpoints.wait if checkpoints else lambda: None
            )
        if self._chief and (result.interrupted or result.stopped_early):
            early = result.stopped_early
            print_stop(result.steps, config, self._run_dir, early=early)
        return result

    def _explain(self, divergence: Divergence) -> str:
        assert self._phase is not None  # See `_enter_phase`.
        steps: list[int] = []
        if self._checkpoints is not None:
            # The chief may still be writing one.
            self._checkpoints.wait()
            steps = self._checkpoints.steps()
        return explain_divergence(
            divergence,
            max(steps, default=0),
            self._skipped,
            batch_size=self._batch_size,
            first_step=self._phase.first_step,
        )

    def _run(self, restored: int | None) -> TrainingResult:
        """Trains until the last step or a stop.

        Args:
          restored: the step of the restored checkpoint; None if the variables
            have their initial values.

        Raises:
          Divergence: if a step diverges.
        """
        config = self._config
        step, budget = restored or 0, self._budget
        metrics: Mapping[str, float] = {}
        interrupted = False
        log = TrainingLog(config, self._run_dir, step, self._chief)
        with contextlib.closing(log) as self._log:
            if budget.last_decay:
                self._log.end_at(budget.last_step)
                self._log.note(budget.describe_decision())
            self._timer = SaveTimer(config, self._total)
            evaluation = self._catch_up(restored)
            stopped_early = self._evaluations.stops_early(step)
            phase_end = step
            while not (interrupted or stopped_early or budget.is_last(step)):
                if step == phase_end:
                    phase_end = self._enter_phase(step)
                end = config.next_stop(step, self._loop.launch_steps)
                end = min(end, phase_end, budget.last_step)
                self._run_steps(step, end)
                step = end
                ends = budget.is_last(step)
                interrupted = self._stop_requested() and not ends
                evaluates = ends or config.evaluates_at(step)
                evaluates = evaluates and not interrupted
                save = interrupted or ends or step == phase_end
                save = self._timer.is_due(step) or save
                if budget.decide(step, self._loop.launch_steps):
                    self._log.end_at(budget.last_step)
                    self._log.note(budget.describe_decision())
                    save = True  # A resumed run has to know of it.
                may_save = save or (config.best_metric and evaluates)
                # Metrics are means since the last log line, so there has to be
                # a line wherever a run may resume.
                if may_save or step % config.log_steps == 0:
                    metrics = self._log_training(step)
                if save:
                    self._save(step)
                if evaluates:
                    evaluation = self._evaluate_at(step, saved=save)
                    stopped_early = self._evaluations.stops_early(step)
                stopped_early = self._callbacks_stop() or stopped_early
                if stopped_early and not save:
                    self._save(step)
            if budget.is_active:
                self._log.note(budget.describe_end(step))
        return TrainingResult(
            step,
            interrupted,
            metrics,
            evaluation,
            stopped_early,
            {line["step"]: line["values"] for line in self._evaluations.lines},
        )

    def _catch_up(self, restored: int | None) -> Mapping[str, float]:
        """Makes up for what a stopped run did not do after its checkpoint."""
        config, step = self._config, restored or 0
        lines = read_metrics(self._run_dir) if self._run_dir else []
        self._evaluations.restore(lines, step)
        due = self._budget.is_last(step) or config.evaluates_at(step)
        if due and not self._evaluations.is_done(step):
            return self._evaluate_at(step, saved=True)
        return {}

    def _batches(self, step: int, phase: TrainingPhase) -> GlobalBatches:
        return phase.batches(step, self._skipped)

    def _enter_phase(self, step: int) -> int:
        """Prepares training from a step on; returns the end of its phase."""
        phase, end = self._phases.at(step)
        # Building a dataset traces its functions, so reuse the checked one.
        data = self._checked.pop(step, None) or self._batches(step, phase)
        self._batch_size = static_batch_size(data.dataset)
        if self._phase is not phase:
            self._phase = phase
            self._train_step = phase.train_step(
                self._config,
                self._model,
                self._optimizer,
                batch_size=self._batch_size,
                replicas=self._strategy.num_replicas_in_sync,
                loss_scale=self._loss_scale,
                averages=self._averages,
            )
            self._loop = TrainLoop(
                self._strategy,
                self._train_step,
                self._schedule,
                self._config.steps_per_loop,
            )
        self._loop.set_data(data)
        self._accumulator = MetricsAccumulator(self._batch_size)
        self._budget.restart_rate()
        if len(self._phases) > 1:
            self._log.note(self._phases.describe(step))
        if phase.begin is not None and step == phase.first_step:
            self._log.note(phase.begin(self._variables))
        return end

    def _run_steps(self, step: int, end: int) -> None:
        """Runs the steps in [`step`, `end`), counted from 0."""
        rows, seconds, waited = self._loop.run(step, end)
        self._accumulator.update(rows, seconds, waited)
        if found := find_divergence(rows, self._config.max_loss):
            offset, reason = found
            raise Divergence(step + offset, reason)
        self._log.advance(end - step)

    def _log_training(self, step: int) -> Mapping[str, float]:
        """Logs and returns the metrics of the steps since the last call."""
        phase = self._phase
        assert phase is not None  # `_enter_phase` has set it.
        metrics = self._accumulator.result(self._train_step.row_names)
        names = self._train_step.detail_names
        details = {name: metrics.pop(name) for name in names}
        if len(self._phases) > 1:
            metrics["phase"] = self._phases.number(phase)
        metrics["learning_rate"] = float(self._schedule(step - 1))
        if self._loss_scale is not None:
            metrics["loss_scale"] = float(self._loss_scale.scale)
        if phase.flops_per_example:
            flops = metrics["examples_per_second"] * phase.flops_per_example
            metrics["gflops_per_second"] = flops / 1e9
        self._log.report(step, "train", metrics, details)
        self._callbacks.report_training(step, metrics)
        return metrics

    def _save(self, step: int) -> None:
        self._timer.restart()
        if self._checkpoints is None:
            return
        if not self._checkpoints.is_finite():
            raise Divergence(step - 1, "a weight is not finite")
        self._checkpoints.time = self._budget.state
        self._checkpoints.save(step)

    def _evaluate_at(self, step: int, *, saved: bool) -> Mapping[str, float]:
        """Evaluates, and keeps the checkpoint if it is the best so far."""
        began = time.monotonic()
        evaluation, best = self._evaluations.run(step)
        self._budget.add_evaluation(time.monotonic() - began)
        if evaluation:
            self._log.report(step, "eval", evaluation)
        self._callbacks.end_epoch(step, evaluation)
        if best:
            if not saved:
                self._save(step)
            self._evaluations.keep(best)
        return evaluation
