"""The trainer: what a run needs, checked before its first step."""

from __future__ import annotations

import contextlib
import dataclasses
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
from albert_tf.training.config import TrainingConfig
from albert_tf.training.distribution import check_model
from albert_tf.training.divergence import Divergence, batches_to_skip
from albert_tf.training.evaluations import Evaluate, Evaluations
from albert_tf.training.input import check_batches
from albert_tf.training.logging import TrainingLog, read_metrics
from albert_tf.training.loss import Loss
from albert_tf.training.loss_scale import DynamicLossScale
from albert_tf.training.optimizers import AdamW
from albert_tf.training.phases import PhaseSequence, TrainingPhase
from albert_tf.training.progress import graceful_stop, print_stop
from albert_tf.training.result import TrainingResult
from albert_tf.training.time_budget import TimeBudget
from albert_tf.training.training_loop import TrainingLoop
from albert_tf.training.workers import (
    any_worker,
    check_same_step,
    is_chief,
    mean_over_workers,
    naming_lost_workers,
    on_chief,
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
        self._mean = mean_over_workers(strategy)
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

    def fit(
        self,
        data: Callable[[int], tf.data.Dataset] | Sequence[TrainingPhase],
        *,
        evaluate: Evaluate | None = None,
        start: Callable[[], None] | None = None,
        flops_per_example: int | None = None,
        initial_values: Mapping[str, np.ndarray] | None = None,
        callbacks: Sequence[keras.callbacks.Callback] = (),
        lower_is_better: Sequence[str] = (),
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
          lower_is_better: metrics of `evaluate` of which the lowest is the
            best, besides those whose name has "loss".

        Returns:
          The result. On SIGINT or SIGTERM the current steps are finished and
          saved first. Resuming a run that was stopped early does nothing,
          unless `config.early_stopping_patience` has been raised.

        Raises:
          InputError: if arguments and data do not fit together, or the
            checkpoint belongs to another run.
          FloatingPointError: if the run diverges. The last checkpoint is from
            before the divergence.
          OSError: if a checkpoint cannot be written. Earlier ones are intact.
          LostWorkerError: if another worker has died.
        """
        config, strategy = self._config, self._strategy
        if config.best_metric and evaluate is None:
            raise InputError("best_metric requires evaluation data")
        if callable(data):
            settings = (config.gradient_accumulation_steps, flops_per_example)
            data = [TrainingPhase(0, data, self._loss, *settings)]
        phases = PhaseSequence(data, config.num_train_steps)
        variables = training_variables(
            self._model, self._optimizer, self._loss_scale, self._averages
        )
        checkpoints = open_checkpoints(
            self._run_dir, config, variables, is_writer=self._chief
        )

        def evaluate_of(step: int) -> Evaluate | None:
            own = phases.of_checkpoint(step).evaluate or evaluate
            if self._averages is None or own is None:
                return own
            return self._averages.applied(own)

        run_callbacks = RunCallbacks(
            callbacks if self._chief else (), self._model, config
        )
        with (
            naming_lost_workers(strategy),
            graceful_stop() as stop,
            checkpoints or contextlib.nullcontext(),
        ):
            step = checkpoints.restore_latest() if checkpoints else None
            check_same_step(strategy, step)
            skipped = batches_to_skip(
                checkpoints.skipped if checkpoints else (),
                config.skipped,
                step or 0,
            )
            if checkpoints:
                checkpoints.skipped = skipped
            budget = TimeBudget(
                config.max_minutes,
                self._schedule,
                config.num_train_steps,
                started=self._started,
                mean=self._mean,
                state=checkpoints.time if checkpoints else (),
            )
            if step is None and initial_values:
                names = variables.keys() & initial_values.keys()
                given = {name: variables[name] for name in names}
                assign_values(given, initial_values, "initial_values")
            checked = {}
            for first, phase, end in phases.remaining(step or 0):
                batches = checked[first] = phase.batches(first, skipped)
                micro_batches = phase.gradient_accumulation_steps
                check_batches(batches, end - first, micro_batches, strategy)
            if start is not None:
                start()
            run_callbacks.begin()
            run = TrainingLoop(
                config=config,
                strategy=strategy,
                model=self._model,
                optimizer=self._optimizer,
                loss_scale=self._loss_scale,
                averages=self._averages,
                phases=phases,
                variables=variables,
                checkpoints=checkpoints,
                evaluations=Evaluations(
                    config, evaluate_of, checkpoints, lower_is_better
                ),
                callbacks=run_callbacks,
                callbacks_stop=any_worker(strategy, lambda: run_callbacks.stop),
                stop_requested=any_worker(strategy, stop.is_set),
                skipped=skipped,
                checked=checked,
                budget=budget,
                log=TrainingLog(config, self._run_dir, step or 0, self._chief),
                mean=self._mean,
                lines=read_metrics(self._run_dir) if self._run_dir else [],
            )
            try:
                with contextlib.closing(run.log):
                    result = run.train(step)
            except Divergence as divergence:
                raise FloatingPointError(run.explain(divergence)) from None
            run_callbacks.end()
            # When `fit` returns, any worker may read what the chief wrote.
            on_chief(
                strategy, checkpoints.wait if checkpoints else lambda: None
            )
            # Also after the last step, which ends a run anyway.
            result = dataclasses.replace(
                result, stop_requested=run.stop_requested()
            )
        if self._chief and (result.interrupted or result.stopped_early):
            early, step = result.stopped_early, result.steps
            print_stop(
                step,
                config,
                self._run_dir,
                early=early,
                by_callback=early and not run.evaluations.stops_early(step),
            )
        return result
