"""Training of a model: steps, evaluations, checkpoints, logs and rollbacks."""

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
    Batches,
    check_batches,
    slice_size,
    static_batch_size,
)
from albert_tf.training.logging import Interval, TrainingLog, read_metrics
from albert_tf.training.loss import Loss
from albert_tf.training.matmul_peak import matmul_peak
from albert_tf.training.optimizers import AdamW, DynamicLossScale
from albert_tf.training.phases import PhaseSequence, TrainingPhase
from albert_tf.training.progress import (
    graceful_stop,
    print_early_stop,
    print_interruption,
)
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
      steps: updates done, including those before a resume.
      interrupted: whether SIGINT or SIGTERM ended the run early.
      metrics: the last training metrics, by name; empty without a new step.
      evaluation: the last result of `evaluate`, by name.
      stopped_early: whether `early_stopping_patience` ended the run.
      evaluations: updates done -> the result of `evaluate` then, including
        those before a resume, which have None for values that are not finite.
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

    The resulting weights are a function of the arguments and the initial
    weights: killing a run at any moment and starting it again changes no bit of
    them (on hardware whose operations are deterministic). Gradients are summed
    over micro-batches and replicas and then clipped once, so the number of
    either does not matter beyond rounding. Update k (from 0) has the learning
    rate `schedule(k)`.

    The host launches `config.steps_per_loop` steps at a time; it logs, saves
    and evaluates between two launches.

    Args:
      config: lengths, periods, clipping, seed.
      strategy: the strategy to train with; see `make_strategy`.
      model: a Keras model created under `strategy.scope()`.
      loss: the loss and its metrics.
      optimizer: not built yet.
      schedule: step -> learning rate, both scalar tensors.
      run_dir: folder for checkpoints, `metrics.jsonl` and TensorBoard; its
        newest checkpoint is resumed. None: nothing is written.

    Raises:
      InputError: the model and the settings do not fit together.
      ValueError: the model was created outside of the strategy.
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
        rolls_back = config.on_divergence == "rollback"
        if run_dir is None and (rolls_back or config.best_metric):
            what = "on_divergence='rollback'" if rolls_back else "best_metric"
            raise InputError(f"{what} requires run_dir, a folder to write to")
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
        self._phase: TrainingPhase | None = None  # the one under way
        self._checked: dict[int, Batches] = {}
        self._best: Best | None = None
        # Of the log, which another worker may not see at once.
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
          data: returns the global batches from a given number on: of a fixed
            size, and enough of them for the run. Update k has batch k, or a
            later one if rollbacks have skipped some. Or the phases of the run.
          evaluate: returns metrics of the current model by name; called every
            `config.eval_steps` steps and at the end, in all phases. With
            `config.ema_decay` the model then has the averages of its weights.
          start: called when the first batch and the checkpoint to resume have
            been read and fit, before anything is written.
          flops_per_example: that of the only phase, see `TrainingPhase`. Where
            it is given, the machine is measured first, and the metric
            `matmul_share` is the fraction of its peak.

        Returns:
          The result. On SIGINT or SIGTERM the steps in progress are finished
          and saved first. A run that was stopped early does nothing when it is
          resumed, unless `config.early_stopping_patience` has grown.

        Raises:
          InputError: arguments or the data do not fit together, or the
            checkpoint belongs to another run.
          FloatingPointError: the run diverged, and rolling back was not
            requested or did not help. The last checkpoint is from before.
          OSError: a checkpoint cannot be written. Earlier ones are intact.
        """
        config, strategy = self._config, self._strategy
        if config.best_metric and evaluate is None:
            raise InputError("best_metric requires evaluation data")
        if self._averages is not None and evaluate:
            evaluate = self._averages.applied(evaluate)
        if callable(data):
            micro_batches = config.gradient_accumulation_steps
            whole = (0, data, self._loss, micro_batches, flops_per_example)
            data = [TrainingPhase(*whole)]
        self._phases = PhaseSequence(data, config.num_train_steps)
        self._evaluate = evaluate
        variables = training_variables(
            self._model, self._optimizer, self._loss_scale, self._averages
        )
        self._checkpoints = checkpoints = open_checkpoints(
            self._run_dir, config, variables, writes=self._chief
        )
        with graceful_stop() as stop, checkpoints or contextlib.nullcontext():
            self._stop_requested = any_worker(strategy, stop.is_set)
            step = checkpoints.restore_latest() if checkpoints else None
            check_same_step(strategy, step)
            left = self._phases.remaining(step or 0)
            for first, phase, end in left:
                self._checked[first] = own = self._batches_from(first, phase)
                slices = phase.gradient_accumulation_steps
                check_batches(own, end - first, slices, strategy)
            if start is not None:
                start()
            self._peak = None
            if any(phase.flops_per_example for _, phase, _ in left):
                self._peak = matmul_peak(strategy, self._model.compute_dtype)
            while True:
                try:
                    result = self._run(step)
                    break
                except Divergence as divergence:
                    self._checked.clear()  # Other batches follow.
                    barrier = any_worker(strategy, lambda: False)
                    step = roll_back(divergence, config, checkpoints, barrier)
            # All workers may read what the chief has written.
            on_chief(
                strategy, checkpoints.wait if checkpoints else lambda: None
            )
        if self._chief and result.interrupted:
            print_interruption(result.steps, self._run_dir)
        elif self._chief and result.stopped_early:
            print_early_stop(result.steps, config)
        return result

    def _run(self, restored: int | None) -> TrainingResult:
        """Trains until the end, a stop or a divergence, which is raised.

        Args:
          restored: the step of the checkpoint that the variables were restored
            from; None if they have their initial values.
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
                # Also wherever a run may resume: its next means start there.
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
        """Does what a stopped run had still to do at its last checkpoint."""
        config, step = self._config, restored or 0
        lines = read_metrics(self._run_dir) if self._run_dir else []
        self._evaluations = [
            x for x in lines if x["split"] == "eval" and x["step"] <= step
        ]
        if config.best_metric:
            assert self._checkpoints is not None  # A best one needs them.
            past = [s for s in self._checkpoints.steps() if s <= step]
            self._best = best_of(lines, config.best_metric, past)
            self._checkpoints.keep_best(self._best)
        if config.on_divergence == "rollback" and restored is None:
            assert self._checkpoints is not None  # A rollback needs them.
            self._checkpoints.save(0)
        evaluated = any(x["step"] == step for x in self._evaluations)
        if self._evaluate and config.evaluates_at(step) and not evaluated:
            return self._evaluate_at(step, saved=True)
        return {}

    def _batches_from(self, step: int, phase: TrainingPhase) -> Batches:
        rollbacks = self._checkpoints.rollbacks if self._checkpoints else ()
        return phase.batches(step, rollbacks)

    def _enter_phase(self, step: int) -> int:
        """Reads the batches from a step on; returns the end of its phase."""
        phase, end = self._phases.at(step)
        # What was checked is not built, and so traced, a second time.
        data = self._checked.pop(step, None) or self._batches_from(step, phase)
        self._batch_size = static_batch_size(data[0])
        # Traced once, however often a divergence restarts the data.
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
        self._loop.read(data)
        self._interval = Interval(self._batch_size)
        if len(self._phases) > 1:
            self._log.note(self._phases.describe(step))
        return end

    def _run_steps(self, step: int, end: int) -> None:
        """Runs the steps from `step` (from 0) up to, but not, `end`."""
        rows, seconds, waited = self._loop.run(step, end)
        self._interval.add(rows, seconds, waited)
        if bad := find_divergence(rows, self._config.max_loss):
            offset, reason = bad
            raise self._divergence(step + offset, reason)
        self._log.advance(end - step)

    def _divergence(self, update: int, reason: str) -> Divergence:
        assert self._phase is not None  # Steps were done.
        first_step = self._phase.first_step
        return Divergence(update, reason, self._batch_size, first_step)

    def _log_training(self, step: int) -> Mapping[str, float]:
        """Logs, and returns, the metrics of the steps since the last call."""
        phase = self._phase
        assert phase is not None  # Steps were done.
        metrics = self._interval.read(self._train_step.row_names)
        names = self._train_step.detail_names
        details = {name: metrics.pop(name) for name in names}
        if len(self._phases) > 1:
            metrics["phase"] = self._phases.number(phase)
        metrics["learning_rate"] = float(self._schedule(step - 1))
        if self._loss_scale is not None:
            metrics["loss_scale"] = float(self._loss_scale.scale)
        if self._peak and phase.flops_per_example:
            rate = metrics["examples_per_second"]
            share = rate * phase.flops_per_example / self._peak
            metrics["matmul_share"] = share
        self._log.report(step, "train", metrics, details)
        return metrics

    def _save_due(self, step: int) -> bool:
        """Returns whether a step, or the time, requires a checkpoint."""
        minutes = self._config.save_checkpoints_minutes
        elapsed = time.monotonic() - self._saved_at
        late = bool(minutes) and elapsed >= 60 * minutes
        periodic = step % self._config.save_checkpoints_steps == 0
        # Any worker's clock decides for all.
        return bool(self._total(late)) or periodic

    def _save(self, step: int) -> None:
        self._saved_at = time.monotonic()
        if self._checkpoints is None:
            return
        if not self._checkpoints.is_finite():
            raise self._divergence(step - 1, "a weight is not finite")
        self._checkpoints.save(step)

    def _evaluate_at(self, step: int, *, saved: bool) -> Mapping[str, float]:
        """Evaluates, and keeps the checkpoint if it is the best so far."""
        assert self._evaluate is not None
        evaluation = self._evaluate()
        self._log.report(step, "eval", evaluation)
        self._evaluations.append(
            {"step": step, "split": "eval", "values": evaluation}
        )
        metric = self._config.best_metric
        best = metric and better(self._best, step, metric, evaluation)
        if best:
            if not saved:
                self._save(step)
            self._best = best
            assert self._checkpoints is not None
            self._checkpoints.keep_best(best)
        return evaluation
