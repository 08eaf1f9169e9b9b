"""The training loop: windows of steps, and what happens between them."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from albert_tf.training.averaging import WeightAverages
from albert_tf.training.best_checkpoint import (
    Best,
    best_of,
    better,
    evaluations_since_best,
)
from albert_tf.training.checkpoint_files import FOLDER
from albert_tf.training.checkpoints import Checkpoints, training_variables
from albert_tf.training.divergence import Divergence, go_back
from albert_tf.training.interruption import graceful_stop
from albert_tf.training.loss_scale import DynamicLossScale
from albert_tf.training.machine_peak import matmul_peak
from albert_tf.training.metrics_log import read_metrics
from albert_tf.training.optimizers import AdamW
from albert_tf.training.preconditions import check_preconditions
from albert_tf.training.reporter import (
    Reporter,
    say_how_to_resume,
    say_why_it_stopped,
)
from albert_tf.training.rollbacks import batches_from
from albert_tf.training.task import Task
from albert_tf.training.training_config import TrainingConfig
from albert_tf.training.window_runner import WindowRunner
from albert_tf.training.workers import any_worker, check_same_step, is_chief


@dataclasses.dataclass(frozen=True)
class TrainingResult:
    """What `train` did.

    Attributes:
      steps: updates done, those before a resume included.
      interrupted: whether SIGINT or SIGTERM ended the run early.
      metrics: the last training metrics, by name; empty if nothing was to do.
      evaluation: the last result of `evaluate`, by name.
      evaluations: updates done -> what `evaluate` gave then, those before a
        resume included; there, None is what was not finite.
      stopped_early: whether `early_stopping_patience` ended the run.
    """

    steps: int
    interrupted: bool
    metrics: Mapping[str, float]
    evaluation: Mapping[str, float]
    stopped_early: bool = False
    evaluations: Mapping[int, Mapping[str, float | None]] = dataclasses.field(
        default_factory=dict
    )


def train(
    config: TrainingConfig,
    strategy: tf.distribute.Strategy,
    model: Any,
    task: Task,
    optimizer: AdamW,
    schedule: Callable[[tf.Tensor], tf.Tensor],
    dataset_fn: Callable[[int], tf.data.Dataset],
    *,
    run_dir: str | os.PathLike | None = None,
    evaluate: Callable[[], Mapping[str, float]] | None = None,
    flops_per_example: int | None = None,
) -> TrainingResult:
    """Trains a model, or goes on training it where its run stopped.

    The weights that come out are a function of the arguments and the initial
    weights: killing the run at any moment and starting it again changes no bit
    of them (on hardware whose operations are deterministic). Gradients are
    summed over micro-batches and replicas and then clipped once, so the number
    of either does not matter beyond rounding. Update k (from 0) has rate
    `schedule(k)`.

    Args:
      config: lengths, periods, clipping, seed.
      strategy: where to train; see `make_strategy`.
      model: a Keras model created under `strategy.scope()`.
      task: loss and metrics.
      optimizer: not built yet.
      schedule: step -> learning rate, both scalar tensors.
      dataset_fn: called with a number, gives the global batches from that one
        on: of a fixed size, and enough of them for the run. Update k has batch
        k, or a later one where rollbacks have left some out.
      run_dir: folder for checkpoints, `metrics.jsonl` and TensorBoard; its
        newest checkpoint is resumed. None: nothing is written.
      evaluate: gives metrics of the model as it is, by name; called every
        `config.eval_steps` steps and at the end. With `config.ema_decay` the
        model has the averages of its weights then.
      flops_per_example: operations of the matrix products that an example
        costs, forward and backward. Where it is given, the machine is measured
        first, and `matmul_share` says how near the run comes to its peak.

    Returns:
      What was done. On SIGINT or SIGTERM the steps under way are finished and
      saved first. A run that was stopped early does nothing when it is resumed,
      unless `config.early_stopping_patience` has grown.

    Raises:
      InputError: arguments or the data do not fit together, or the checkpoint
        is of another run.
      FloatingPointError: the run diverged and is not to be rolled back, or that
        was of no use. The last checkpoint is from before.
      OSError: a checkpoint cannot be written. Those before are intact.
    """
    check_preconditions(config, strategy, model, run_dir, evaluate)
    with strategy.scope():
        optimizer.build(model.trainable_variables)
        loss_scale = DynamicLossScale() if config.dynamic_loss_scale else None
        averages = None
        if config.ema_decay:
            averages = WeightAverages(
                model.trainable_variables, config.ema_decay
            )
            evaluate = evaluate and averages.applied(evaluate)
    checkpoints = None
    if run_dir is not None:
        rolls_back = config.on_divergence == "rollback"
        checkpoints = Checkpoints(
            os.path.join(os.fspath(run_dir), FOLDER),
            training_variables(model, optimizer, loss_scale, averages),
            seed=config.seed,
            keep=config.keep_checkpoints,
            reach=config.rollback_window - 1 if rolls_back else None,
            writes=is_chief(strategy),
        )

    with graceful_stop() as stop, checkpoints or contextlib.nullcontext():
        step = checkpoints.restore_latest() if checkpoints else None
        check_same_step(strategy, step)
        peak = None
        if flops_per_example and (step or 0) < config.total_steps:
            peak = matmul_peak(strategy, model.compute_dtype)
        loop = _Loop(
            config,
            any_worker(strategy, stop.is_set),
            functools.partial(
                WindowRunner,
                config,
                strategy,
                model,
                task,
                optimizer,
                schedule,
                loss_scale=loss_scale,
                averages=averages,
            ),
            dataset_fn,
            checkpoints,
            run_dir,
            evaluate,
            is_chief(strategy),
            peak and peak / flops_per_example,
        )
        while True:
            try:
                result = loop.run(step)
                break
            except Divergence as divergence:
                barrier = any_worker(strategy, lambda: False)
                step = go_back(divergence, config, checkpoints, barrier)
    if result.interrupted and is_chief(strategy):
        say_how_to_resume(result.steps, run_dir)
    if result.stopped_early and is_chief(strategy):
        say_why_it_stopped(result.steps, config)
    return result


class _Loop:
    """Windows of steps, and what happens between them; see `train`."""

    def __init__(
        self,
        config: TrainingConfig,
        stopping: Callable[[], bool],
        make_runner: Callable[[tf.data.Dataset], WindowRunner],
        dataset_fn: Callable[[int], tf.data.Dataset],
        checkpoints: Checkpoints | None,
        run_dir: str | os.PathLike | None,
        evaluate: Callable[[], Mapping[str, float]] | None,
        chief: bool,
        peak_rate: float | None,
    ):
        self._config = config
        self._stopping = stopping
        self._make_runner = make_runner
        self._dataset_fn = dataset_fn
        self._checkpoints = checkpoints
        self._run_dir = run_dir
        self._evaluate = evaluate
        self._chief = chief
        # Examples per second, if there were nothing but products at their peak.
        self._peak_rate = peak_rate
        # Traced once, whatever a divergence makes begin anew.
        self._runner: WindowRunner | None = None
        self._best: Best | None = None
        # Lines of the log, which another worker may not see at once.
        self._evaluations: list[Mapping[str, Any]] = []

    def run(self, restored: int | None) -> TrainingResult:
        """Trains from a step to the end, or until it is to stop.

        Args:
          restored: the step whose checkpoint the variables are of; None where
            they have their initial values.

        Raises:
          Divergence: a step was no good.
        """
        config = self._config
        step = restored or 0
        metrics: Mapping[str, float] = {}
        interrupted = False
        with Reporter(
            self._run_dir, config.total_steps, step, enabled=self._chief
        ) as reporter:
            evaluation = self._begin(restored, reporter)
            stopped_early = self._stops_early(step)
            if step < config.total_steps and not stopped_early:
                self._read_data(step)
            while step < config.total_steps and not (
                interrupted or stopped_early
            ):
                steps = config.next_stop(step) - step
                self._runner.run(step, steps)
                step += steps
                reporter.advance(steps)
                finished = step == config.total_steps
                interrupted = self._stopping() and not finished
                evaluates = config.evaluates_at(step) and not interrupted
                save = finished or interrupted or step % config.save_steps == 0
                may_save = save or (config.best_metric and evaluates)
                # Also wherever a run may resume: the next means start there.
                if may_save or step % config.log_steps == 0:
                    metrics, details = self._runner.read_metrics(step)
                    if self._peak_rate:
                        rate = metrics["examples_per_second"]
                        metrics["matmul_share"] = rate / self._peak_rate
                    reporter.report(step, "train", metrics, details)
                if save:
                    self._save(step)
                if self._evaluate and evaluates:
                    evaluation = self._evaluate_at(step, reporter, saved=save)
                    stopped_early = self._stops_early(step)
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

    def _begin(
        self, restored: int | None, reporter: Reporter
    ) -> Mapping[str, float]:
        """Catches up on what a run that was stopped had still to do."""
        config, step = self._config, restored or 0
        lines = read_metrics(self._run_dir) if self._run_dir else []
        self._evaluations = [
            x for x in lines if x["split"] == "eval" and x["step"] <= step
        ]
        if config.best_metric:
            past = [s for s in self._checkpoints.steps() if s <= step]
            self._best = best_of(lines, config.best_metric, past)
            self._checkpoints.keep_best(self._best)
        if config.on_divergence == "rollback" and restored is None:
            self._checkpoints.save(0)
        evaluated = any(x["step"] == step for x in self._evaluations)
        if self._evaluate and config.evaluates_at(step) and not evaluated:
            return self._evaluate_at(step, reporter, saved=True)
        return {}

    def _read_data(self, step: int) -> None:
        rollbacks = self._checkpoints.rollbacks if self._checkpoints else ()
        dataset = batches_from(self._dataset_fn, step, rollbacks)
        if self._runner is None:
            self._runner = self._make_runner(dataset)
        else:
            self._runner.read_from(dataset)

    def _save(self, step: int) -> None:
        if self._checkpoints is None:
            return
        if not self._checkpoints.is_finite():
            raise Divergence(
                step - 1, "a weight is not finite", self._runner.batch_size
            )
        self._checkpoints.save(step)

    def _evaluate_at(
        self, step: int, reporter: Reporter, *, saved: bool
    ) -> Mapping[str, float]:
        """Evaluates, and keeps the checkpoint if it is the best so far."""
        evaluation = self._evaluate()
        reporter.report(step, "eval", evaluation)
        line = {"step": step, "split": "eval", "values": evaluation}
        self._evaluations.append(line)
        metric = self._config.best_metric
        best = metric and better(self._best, step, metric, evaluation)
        if best:
            if not saved:
                self._save(step)
            self._best = best
            self._checkpoints.keep_best(best)
        return evaluation

    def _stops_early(self, step: int) -> bool:
        """Whether a run is to end before its last step.

        It depends on the evaluations up to a checkpoint alone, so that a run
        that is killed and resumed stops where it would have stopped.
        """
        config = self._config
        patience = config.early_stopping_patience
        if not patience or step >= config.total_steps:
            return False
        since = evaluations_since_best(self._evaluations, config.best_metric)
        return since >= patience
