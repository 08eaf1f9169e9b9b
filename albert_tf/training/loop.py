"""The training loop: windows of steps, and what happens between them."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training.checkpoints import (
    FOLDER,
    Checkpoints,
    training_variables,
)
from albert_tf.training.distribution import any_worker, is_chief
from albert_tf.training.input_slices import (
    distribute,
    slice_size,
    static_batch_size,
)
from albert_tf.training.interruption import graceful_stop
from albert_tf.training.interval import Interval
from albert_tf.training.loss_scale import DynamicLossScale
from albert_tf.training.optimizers import AdamW
from albert_tf.training.replica_step import ReplicaStep
from albert_tf.training.reporter import Reporter
from albert_tf.training.task import Task
from albert_tf.training.training_config import TrainingConfig
from albert_tf.training.variables import name_of, tf_variable
from albert_tf.training.window import build_window


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
    _check_model(model, strategy)
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
    if step >= config.total_steps:
        return TrainingResult(step, False, {}, {})

    dataset = dataset_fn(step)
    batch_size = static_batch_size(dataset)
    replica_step = _replica_step(
        config, strategy, model, task, optimizer, batch_size
    )
    run_window = build_window(
        strategy,
        replica_step,
        schedule,
        seed=config.seed,
        loss_scale=loss_scale,
        jit_compile=config.jit_compile,
    )
    iterator = iter(distribute(strategy, dataset))
    interval = Interval(batch_size)
    metrics: dict[str, float] = {}
    evaluation: Mapping[str, float] = {}
    interrupted = False

    with contextlib.ExitStack() as stack:
        stop = stack.enter_context(graceful_stop())
        stopping = any_worker(strategy, stop.is_set)
        reporter = stack.enter_context(
            Reporter(run_dir, config.total_steps, step, enabled=chief)
        )
        while step < config.total_steps and not interrupted:
            steps = config.next_stop(step) - step
            started = time.perf_counter()
            rows = _run(run_window, iterator, step, steps)
            interval.add(rows, time.perf_counter() - started)
            _check_finite(rows, step)
            step += steps
            reporter.advance(steps)
            finished = step == config.total_steps
            interrupted = stopping() and not finished
            save = finished or interrupted or step % config.save_steps == 0
            # Also wherever a run may resume: the next means start from there.
            if save or step % config.log_steps == 0:
                metrics = interval.read(replica_step.row_names)
                metrics["learning_rate"] = float(schedule(step - 1))
                if loss_scale is not None:
                    metrics["loss_scale"] = float(loss_scale.scale)
                reporter.report(step, "train", metrics)
            if save and checkpoints is not None:
                checkpoints.save(step)
            if evaluate is not None and not interrupted:
                if finished or _is_due(step, config.eval_steps):
                    evaluation = evaluate()
                    reporter.report(step, "eval", evaluation)
    if interrupted and chief:
        _say_how_to_resume(step, run_dir)
    return TrainingResult(step, interrupted, metrics, evaluation)


def _check_model(model: Any, strategy: tf.distribute.Strategy) -> None:
    if not model.trainable_variables:
        raise InputError(
            "the model has no trainable variable; unfreeze some of it"
        )
    for variable in model.weights:
        if not strategy.extended.variable_created_in_scope(
            tf_variable(variable)
        ):
            raise ValueError(
                f"variable {name_of(variable)!r} was not created under the "
                "strategy; create the model under strategy.scope()"
            )


def _replica_step(
    config, strategy, model, task, optimizer, batch_size
) -> ReplicaStep:
    replicas = strategy.num_replicas_in_sync
    if config.jit_compile and replicas > 1:
        raise InputError(
            f"jit_compile=True works on one replica, not {replicas}; leave it "
            "out (a TPU compiles anyway)"
        )
    accumulation = config.gradient_accumulation_steps
    return ReplicaStep(
        model,
        task,
        optimizer,
        accumulation=accumulation,
        slice_size=slice_size(batch_size, replicas, accumulation),
        clip_norm=config.clip_norm,
        skip_overflow=config.dynamic_loss_scale,
    )


def _run(run_window, iterator, step: int, steps: int) -> np.ndarray:
    try:
        return run_window(
            iterator, tf.constant(step, tf.int64), tf.constant(steps, tf.int64)
        ).numpy()
    except tf.errors.OutOfRangeError as error:
        raise InputError(
            f"the training data ended between step {step} and {step + steps}; "
            "repeat the dataset or lower total_steps"
        ) from error


def _check_finite(rows: np.ndarray, step: int) -> None:
    """Stops at the first loss or gradient norm that is not finite."""
    for name, row in (("loss", 0), ("gradient norm", -1)):
        bad = ~np.isfinite(rows[:, row, 0])
        if bad.any():
            first = int(np.argmax(bad))
            raise FloatingPointError(
                f"the {name} is {rows[first, row, 0]} at step "
                f"{step + first + 1}; nothing was saved since. Resume with a "
                "lower learning rate or look at that step's batch"
            )


def _is_due(step: int, period: int) -> bool:
    return period > 0 and step % period == 0


def _say_how_to_resume(step: int, run_dir: str | os.PathLike | None) -> None:
    saved = "nothing saved: the run has no folder"
    if run_dir is not None:
        saved = f"saved in {os.fspath(run_dir)}; the same command resumes"
    print(f"Stopped after step {step}, {saved}.", file=sys.stderr, flush=True)
