"""Fine-tuning runs, single or repeated with different seeds."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from albert_tf.errors import counted
from albert_tf.files import write_atomically
from albert_tf.finetuning.batches import training_batches
from albert_tf.finetuning.config import FinetuneConfig
from albert_tf.finetuning.data import TaskFiles
from albert_tf.finetuning.model_folder import save_model
from albert_tf.finetuning.predictor import BatchPredictor
from albert_tf.finetuning.results import (
    EVALUATION_FILE,
    FinetuneResult,
    Reference,
    RunsResult,
    finite,
)
from albert_tf.finetuning.run import FinetuneRun, open_runs, run_summary
from albert_tf.finetuning.task_config import TaskConfig
from albert_tf.interop.run_folder import MODEL_FOLDER, RUNS_FILE
from albert_tf.training.checkpoints import load_best_variables
from albert_tf.training.run import Run
from albert_tf.training.run_folder import open_runs_folder
from albert_tf.training.schedules import SCHEDULES
from albert_tf.training.workers import is_chief


def train_runs(
    config: FinetuneConfig,
    task_config: TaskConfig,
    files: TaskFiles,
    *,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    command_files: Mapping[str, str] | None = None,
) -> RunsResult:
    """Starts or resumes the runs of `finetune`; examples are read once."""
    runs = config.runs
    output = os.fspath(config.output)
    configs = {"": config}
    if runs > 1:
        configs = {
            f"run-{number}": dataclasses.replace(
                config,
                output=os.path.join(output, f"run-{number}"),
                seed=config.seed + number,
            )
            for number in range(runs)
        }
    prepared = open_runs(list(configs.values()), task_config, files)
    by_name = dict(zip(configs, prepared, strict=True))
    strategy = prepared[0].strategy
    results: dict[str, FinetuneResult] = {}
    with contextlib.ExitStack() as locks:
        if runs > 1:
            locks.enter_context(
                open_runs_folder(output, [*configs, RUNS_FILE], strategy)
            )
        opened = {
            name: locks.enter_context(run.open(command_files))
            for name, run in by_name.items()
        }
        for name, run in by_name.items():
            if results:
                keras.backend.clear_session()
            results[name] = _finetune(run, opened[name], callbacks)
            if results[name].training.stop_requested:
                break
        unstarted = len(by_name) - len(results)
        if unstarted and is_chief(strategy):
            print(
                f"Stopped before {counted(unstarted, 'run')}; the same command "
                "continues.",
                file=sys.stderr,
            )
        result = RunsResult(
            metric=task_config.key_metric,
            results=results,
            reference=_reference(prepared[0]),
            unstarted=unstarted,
        )
        if runs > 1 and is_chief(strategy) and not result.interrupted:
            write_atomically(os.path.join(output, RUNS_FILE), result.to_json())
    return result


def _finetune(
    run: FinetuneRun, opened: Run, callbacks: Sequence[keras.callbacks.Callback]
) -> FinetuneResult:
    """Trains, evaluates and saves the model of one run."""
    config, strategy = run.config, run.strategy
    task_type, data, dev = run.task_type, run.data, run.dev
    task_config = task_type.task_config
    schedule = SCHEDULES[config.schedule](
        config.learning_rate, config.num_train_steps, config.warmup_steps
    )
    length = task_type.max_seq_length if config.fixed_length else None
    model = opened.make_model(run.make_model, _seed_of_head(config.seed))
    predict = BatchPredictor(
        strategy,
        model,
        task_type.forward,
        batch_size=config.eval_batch_size,
        fixed_length=length,
        progress=is_chief(strategy),
    )

    def evaluate() -> dict[str, float]:
        assert dev is not None
        outputs = predict(dev.features)
        predictions = task_type.predictions(dev.examples, dev.features, outputs)
        return dev.evaluate(task_type, predictions)

    def batches(start_step: int) -> tf.data.Dataset:
        return training_batches(
            data.train,
            batch_size=config.train_batch_size,
            seed=config.seed,
            start_step=start_step,
            fixed_length=length,
        )

    result = opened.train(
        model,
        task_type.make_loss(**run.loss_arguments),
        schedule,
        batches,
        summary=run_summary(run, model),
        evaluate=evaluate if dev else None,
        callbacks=callbacks,
        lower_is_better=task_type.lower_is_better,
    )
    if result.interrupted:
        return FinetuneResult(training=result)
    step = load_best_variables(model, config.output)
    scores: dict[str, float] = {}
    if dev:
        # Evaluating again could take minutes; a log may lack new metrics.
        logged = result.evaluations.get(step, {})
        known = bool(logged) and {*task_config.metrics} <= logged.keys()
        scores = dev.reported(logged if known else evaluate())
        task_config = task_config.with_tuned(scores)
    found = FinetuneResult(training=result, step=step, scores=scores)
    if is_chief(strategy):
        task_config = dataclasses.replace(
            task_config,
            scores=finite(scores),
            baselines={n: finite(x) for n, x in run.baselines.items()},
        )
        save_model(
            os.path.join(config.output, MODEL_FOLDER),
            model,
            task_type,
            task_config,
        )
        if dev:
            write_atomically(
                os.path.join(config.output, EVALUATION_FILE),
                _reference(run).to_json(task_config.key_metric, found),
            )
    return found


def _seed_of_head(seed: int) -> int:
    """Returns the seed of the new weights of a run.

    With the run's own seed, a head of two classes would have the initial
    weights of the sentence-order head of a pretraining run with that seed, for
    which the pooled output was trained.
    """
    return int(np.random.SeedSequence((seed, 1)).generate_state(1)[0])


def _reference(run: FinetuneRun) -> Reference:
    return Reference(
        baselines=run.baselines,
        num_examples=len(run.dev.scored) if run.dev else 0,
        num_scored=run.task_type.num_scored(run.dev.scored) if run.dev else 0,
        selection=run.config.dev_selection,
        perfect_score=run.task_type.perfect_score,
        lower_is_better=run.task_type.lower_is_better,
    )
