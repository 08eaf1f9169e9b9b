"""The training loop: steps, evaluation, checkpoints, logs and rollbacks."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training.averaging import WeightAverages
from albert_tf.training.best_checkpoint import (
    Best,
    best_of,
    better,
    stops_early,
)
from albert_tf.training.checkpoints import open_checkpoints, training_variables
from albert_tf.training.config import TrainingConfig
from albert_tf.training.distribution import check_model
from albert_tf.training.divergence import Divergence, find_divergence, roll_back
from albert_tf.training.input import (
    GlobalBatches,
    check_batches,
    slice_size,
    static_batch_size,
)
from albert_tf.training.logging import (
    MetricsAccumulator,
    TrainingLog,
    read_metrics,
)
from albert_tf.training.loss import Loss
from albert_tf.training.loss_scale import DynamicLossScale
from albert_tf.training.matmul_peak import matmul_peak
from albert_tf.training.optimizers import AdamW
from albert_tf.training.phases import PhaseSequence, TrainingPhase
from albert_tf.training.progress import graceful_stop, print_stop
from albert_tf.training.train_step import TrainLoop, TrainStep
from albert_tf.training.workers import (
    any_worker,
    check_same_step,
    is_chief,
    on_chief,
    sum_over_replicas,
)


@dataclasses.dataclass(frozen=True)
class TrainingResult:
    """Result of `Trainer.fit`.

    Attributes:
      steps: updates done, including those before the run was resumed.
      interrupted: whether SIGINT or SIGTERM ended the run early.
      metrics: the last training metrics by name; empty if no step was run.
      evaluation: the last result of `evaluate`, by name.
      stopped_early: whether `early_stopping_patience` ended the run.
      evaluations: step -> result of `evaluate`, also from before the run was
        resumed, with None for non-finite values.
    """

    steps: int
    interrupted: bool
    metrics: Mapping[str, float]
    evaluation: Mapping[str, float]
    stopped_early: bool = False
    evaluations: Mapping[int, Mapping[str, float | None]] = dataclasses.field(
        default_factory=dict
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
        self._best: Best | None = None
        # Kept here, because other workers may not see the chief's log at once.
        self._evaluations: list[Mapping[str, Any]] = []

    def fit(
        self,
        data: Callable[[int], tf.data.Dataset] | Sequence[TrainingPhase],
        *,
        evaluate: Callable[[], Mapping[str, float]] | None = None,
        start: Callable[[], None] | None = None,
        flops_per_example: int | None = None,
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
          flops_per_example: see `TrainingPhase`. If given, `matmul_share` is
            logged: the fraction of the measured peak of the machine.

        Returns:
          The result. On SIGINT or SIGTERM the current steps are finished and
          saved first. Resuming a run that was stopped early does nothing,
          unless `config.early_stopping_patience` has been raised.

        Raises:
          InputError: if arguments and data do not fit together, or the
            checkpoint belongs to another run.
          FloatingPointError: if the run diverges, and rolling back was not
            requested or did not help. The last checkpoint is from before.
          OSError: if a checkpoint cannot be written. Earlier ones are intact.
        """
        config, strategy = self._config, self._strategy
        if config.best_metric and evaluate is None:
            raise InputError("best_metric requires evaluation data")
        if self._averages is not None and evaluate:
            evaluate = self._averages.applied(evaluate)
        if callable(data):
            data = [
                TrainingPhase(
                    0,
                    data,
                    self._loss,
                    config.gradient_accumulation_steps,
                    flops_per_example,
                )
            ]
        self._phases = PhaseSequence(data, config.num_train_steps)
        self._evaluate = evaluate
        self._variables = training_variables(
            self._model, self._optimizer, self._loss_scale, self._averages
        )
        self._checkpoints = checkpoints = open_checkpoints(
            self._run_dir, config, self._variables, is_writer=self._chief
        )
        with graceful_stop() as stop, checkpoints or contextlib.nullcontext():
            self._stop_requested = any_worker(strategy, stop.is_set)
            step = checkpoints.restore_latest() if checkpoints else None
            check_same_step(strategy, step)
            remaining = self._phases.remaining(step or 0)
            for first, phase, end in remaining:
                batches = self._checked[first] = self._batches(first, phase)
                micro_batches = phase.gradient_accumulation_steps
                check_batches(batches, end - first, micro_batches, strategy)
            if start is not None:
                start()
            self._peak = None
            if any(phase.flops_per_example for _, phase, _ in remaining):
                self._peak = matmul_peak(strategy, self._model.compute_dtype)
            while True:
                try:
                    result = self._run(step)
                    break
                except Divergence as divergence:
                    self._checked.clear()  # They include batches to skip.
                    assert self._phase is not None  # See `_enter_phase`.
                    step = roll_back(
                        divergence,
                        config,
                        checkpoints,
                        synchronize=any_worker(strategy, lambda: False),
                        batch_size=self._batch_size,
                        first_step=self._phase.first_step,
                    )
            # When `fit` returns, any worker may read what the chief wrote.
            on_chief(
                strategy, checkpoints.wait if checkpoints else lambda: None
            )
        if self._chief and (result.interrupted or result.stopped_early):
            early = result.stopped_early
            print_stop(result.steps, config, self._run_dir, early=early)
        return result

    def _run(self, restored: int | None) -> TrainingResult:
        """Trains until the last step or a stop.

        Args:
          restored: the step of the restored checkpoint; None if the variables
            have their initial values.

        Raises:
          Divergence: if a step diverges.
        """
        config = self._config
        step, last = restored or 0, config.num_train_steps
        metrics: Mapping[str, float] = {}
        interrupted = False
        log = TrainingLog(config, self._run_dir, step, self._chief)
        with contextlib.closing(log) as self._log:
            self._saved_at = time.monotonic()
            evaluation = self._catch_up(restored)
            stopped_early = stops_early(config, step, self._evaluations)
            phase_end = step
            while step < last and not (interrupted or stopped_early):
                if step == phase_end:
                    phase_end = self._enter_phase(step)
                end = config.next_stop(step, self._loop.launch_steps)
                end = min(end, phase_end)
                self._run_steps(step, end)
                step = end
                interrupted = self._stop_requested() and step < last
                evaluates = config.evaluates_at(step) and not interrupted
                save = self._save_due(step) or interrupted or step == phase_end
                may_save = save or (config.best_metric and evaluates)
                # Metrics are means since the last log line, so there has to be
                # a line wherever a run may resume.
                if may_save or step % config.log_steps == 0:
                    metrics = self._log_training(step)
                if save:
                    self._save(step)
                if self._evaluate and evaluates:
                    evaluation = self._evaluate_at(step, saved=save)
                    stopped_early = stops_early(config, step, self._evaluations)
                    if stopped_early and not save:
                        self._save(step)
        return TrainingResult(
            step,
            interrupted,
            metrics,
            evaluation,
            stopped_early,
            {line["step"]: line["values"] for line in self._evaluations},
        )

    def _catch_up(self, restored: int | None) -> Mapping[str, float]:
        """Makes up for what a stopped run did not do after its checkpoint."""
        config, step = self._config, restored or 0
        lines = read_metrics(self._run_dir) if self._run_dir else []
        self._evaluations = [
            x for x in lines if x["split"] == "eval" and x["step"] <= step
        ]
        if config.best_metric:
            assert self._checkpoints is not None  # See `open_checkpoints`.
            past = [s for s in self._checkpoints.steps() if s <= step]
            self._best = best_of(lines, config.best_metric, past)
            self._checkpoints.keep_best(self._best)
        if config.on_divergence == "rollback" and restored is None:
            assert self._checkpoints is not None  # See `open_checkpoints`.
            self._checkpoints.save(0)
        evaluated = any(x["step"] == step for x in self._evaluations)
        if self._evaluate and config.evaluates_at(step) and not evaluated:
            return self._evaluate_at(step, saved=True)
        return {}

    def _batches(self, step: int, phase: TrainingPhase) -> GlobalBatches:
        rollbacks = self._checkpoints.rollbacks if self._checkpoints else ()
        return phase.batches(step, rollbacks)

    def _enter_phase(self, step: int) -> int:
        """Prepares training from a step on; returns the end of its phase."""
        phase, end = self._phases.at(step)
        # Building a dataset traces its functions, so reuse the checked one.
        data = self._checked.pop(step, None) or self._batches(step, phase)
        self._batch_size = static_batch_size(data.dataset)
        # A phase is traced once, even if rollbacks restart its data.
        if self._phase is not phase:
            self._phase = phase
            micro_batches = phase.gradient_accumulation_steps
            self._train_step = TrainStep(
                dataclasses.replace(
                    self._config, gradient_accumulation_steps=micro_batches
                ),
                self._model,
                phase.loss,
                self._optimizer,
                micro_batch_size=slice_size(
                    self._batch_size,
                    self._strategy.num_replicas_in_sync,
                    micro_batches,
                ),
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
        if self._peak and phase.flops_per_example:
            rate = metrics["examples_per_second"]
            flops = rate * phase.flops_per_example
            metrics["matmul_share"] = flops / self._peak
        self._log.report(step, "train", metrics, details)
        return metrics

    def _save_due(self, step: int) -> bool:
        """Returns whether a checkpoint is due after `step`, or by time."""
        minutes = self._config.save_checkpoints_minutes
        elapsed = time.monotonic() - self._saved_at
        late = bool(minutes) and elapsed >= 60 * minutes
        periodic = step % self._config.save_checkpoints_steps == 0
        # All workers save as soon as the clock of any of them says so.
        return bool(self._total(late)) or periodic

    def _save(self, step: int) -> None:
        self._saved_at = time.monotonic()
        if self._checkpoints is None:
            return
        if not self._checkpoints.is_finite():
            raise Divergence(step - 1, "a weight is not finite")
        self._checkpoints.save(step)

    def _evaluate_at(self, step: int, *, saved: bool) -> Mapping[str, float]:
        """Evaluates, and keeps the checkpoint if it is the best so far."""
        assert self._evaluate is not None
        evaluation = self._evaluate()
        self._log.report(step, "eval", evaluation)
        line = {"step": step, "split": "eval", "values": evaluation}
        self._evaluations.append(line)
        metric = self._config.best_metric
        best = metric and better(self._best, step, metric, evaluation)
        if best:
            if not saved:
                self._save(step)
            self._best = best
            assert self._checkpoints is not None
            self._checkpoints.keep_best(best)
        return evaluation
