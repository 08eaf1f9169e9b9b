"""The training loop: windows of steps, and what happens between them."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training.checkpoints import (
    FOLDER,
    Checkpoints,
    training_variables,
)
from albert_tf.training.distribution import any_worker, is_chief
from albert_tf.training.interruption import graceful_stop
from albert_tf.training.loss_scale import DynamicLossScale
from albert_tf.training.metrics_log import read_metrics
from albert_tf.training.optimizers import AdamW
from albert_tf.training.reporter import Reporter
from albert_tf.training.task import Task
from albert_tf.training.training_config import TrainingConfig
from albert_tf.training.variables import name_of, tf_variable
from albert_tf.training.window_runner import WindowRunner


@dataclasses.dataclass(frozen=True)
class TrainingResult:
    """What `train` did.

    Attributes:
      steps: updates done, those before a resume included.
      interrupted: whether SIGINT or SIGTERM ended the run early.
      metrics: the last training metrics, by name; empty if nothing was to do.
      evaluation: the last result of `evaluate`, by name.
    """

    steps: int
    interrupted: bool
    metrics: Mapping[str, float]
    evaluation: Mapping[str, float]


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
      dataset_fn: called with the first step to do, gives the global batches
        from there on: of a fixed size, and enough of them for the run.
      run_dir: folder for checkpoints, `metrics.jsonl` and TensorBoard; its
        newest checkpoint is resumed. None: nothing is written.
      evaluate: gives metrics of the model as it is, by name; called every
        `config.eval_steps` steps and at the end.

    Returns:
      What was done. On SIGINT or SIGTERM the steps under way are finished and
      saved first.

    Raises:
      InputError: arguments or the data do not fit together, or the checkpoint
        is of another run.
      FloatingPointError: the loss or the gradient is no longer finite. The last
        checkpoint is from before.
    """
    _check_model(model, strategy, config)
    with strategy.scope():
        optimizer.build(model.trainable_variables)
        loss_scale = DynamicLossScale() if config.dynamic_loss_scale else None
    chief = is_chief(strategy)
    checkpoints, step = None, 0
    if run_dir is not None:
        checkpoints = Checkpoints(
            os.path.join(os.fspath(run_dir), FOLDER),
            training_variables(model, optimizer, loss_scale),
            seed=config.seed,
            keep=config.keep_checkpoints,
            writes=chief,
        )
        step = checkpoints.restore_latest() or 0
    metrics: Mapping[str, float] = {}
    evaluation: Mapping[str, float] = {}
    interrupted = False

    with (
        graceful_stop() as stop,
        Reporter(run_dir, config.total_steps, step, enabled=chief) as reporter,
    ):
        # A run that was stopped while it evaluated has that still to do.
        pending = config.evaluates_at(step)
        if evaluate and pending and not _has_evaluation(run_dir, step):
            evaluation = evaluate()
            reporter.report(step, "eval", evaluation)
        if step >= config.total_steps:
            return TrainingResult(step, False, metrics, evaluation)
        stopping = any_worker(strategy, stop.is_set)
        runner = WindowRunner(
            config,
            strategy,
            model,
            task,
            optimizer,
            schedule,
            dataset_fn(step),
            loss_scale,
        )
        while step < config.total_steps and not interrupted:
            steps = config.next_stop(step) - step
            runner.run(step, steps)
            step += steps
            reporter.advance(steps)
            finished = step == config.total_steps
            interrupted = stopping() and not finished
            save = finished or interrupted or step % config.save_steps == 0
            # Also wherever a run may resume: the next means start from there.
            if save or step % config.log_steps == 0:
                metrics = runner.read_metrics(step)
                reporter.report(step, "train", metrics)
            if save and checkpoints is not None:
                checkpoints.save(step)
            if evaluate and config.evaluates_at(step) and not interrupted:
                evaluation = evaluate()
                reporter.report(step, "eval", evaluation)
    if interrupted and chief:
        _say_how_to_resume(step, run_dir)
    return TrainingResult(step, interrupted, metrics, evaluation)


def _check_model(
    model: Any, strategy: tf.distribute.Strategy, config: TrainingConfig
) -> None:
    if not model.trainable_variables:
        raise InputError(
            "the model has no trainable variable; unfreeze some of it"
        )
    if model.compute_dtype == "float16" and not config.dynamic_loss_scale:
        raise InputError(
            "a model in float16 needs dynamic_loss_scale=True, or most of its "
            "gradients are zero; mixed_bfloat16 needs none"
        )
    for variable in model.weights:
        if not strategy.extended.variable_created_in_scope(
            tf_variable(variable)
        ):
            raise ValueError(
                f"variable {name_of(variable)!r} was not created under the "
                "strategy; create the model under strategy.scope()"
            )


def _has_evaluation(run_dir: str | os.PathLike | None, step: int) -> bool:
    """Whether the log of the run has the evaluation of this step already."""
    lines = read_metrics(run_dir) if run_dir is not None else []
    return any(x["split"] == "eval" and x["step"] == step for x in lines)


def _say_how_to_resume(step: int, run_dir: str | os.PathLike | None) -> None:
    saved = "nothing saved: the run has no folder"
    if run_dir is not None:
        saved = f"saved in {os.fspath(run_dir)}; the same command resumes"
    print(f"Stopped after step {step}, {saved}.", file=sys.stderr, flush=True)
