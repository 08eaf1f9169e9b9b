"""Fine-tuning: one run, or several with different seeds."""

from __future__ import annotations

import dataclasses
import math
import os
import sys
from collections.abc import Mapping

import keras
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import write_atomically
from albert_tf.finetuning.batches import training_batches
from albert_tf.finetuning.config import FinetuneConfig
from albert_tf.finetuning.data import TaskData, TaskFiles, load_data
from albert_tf.finetuning.model_folder import save_model
from albert_tf.finetuning.predictor import make_batch_predictor
from albert_tf.finetuning.registry import make_task_type
from albert_tf.finetuning.results import FinetuneResult, RunsResult
from albert_tf.finetuning.task_config import TaskConfig
from albert_tf.finetuning.task_type import TaskType
from albert_tf.interop.checkpoint import Checkpoint
from albert_tf.interop.formats.run_folder import MODEL_FOLDER, RUNS_FILE
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.models.base import AlbertModel
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.tokenizer_files import load_tokenizer, tokenizer_files
from albert_tf.training.best_checkpoint import read_best
from albert_tf.training.checkpoint_files import BEST, FOLDER, list_checkpoints
from albert_tf.training.checkpoints import load_model_variables
from albert_tf.training.distribution import (
    LOCAL,
    check_tpu_run,
    is_chief,
    make_strategy,
    set_precision,
)
from albert_tf.training.optimizers import make_optimizer
from albert_tf.training.run_folder import load_run_config, prepare_run_folder
from albert_tf.training.schedules import SCHEDULES
from albert_tf.training.trainer import Trainer, TrainingResult


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuneRun:
    """A task with its data and what its models start from.

    Several runs that differ in their seeds share it.

    Attributes:
      strategy: the distribution strategy.
      task_type: the task, with the tokenizer.
      data: what to train on and to be scored on.
      architecture: the model's.
      checkpoint: the weights to start from; None: the run resumes from a
        checkpoint of its own.
    """

    strategy: tf.distribute.Strategy
    task_type: TaskType
    data: TaskData
    architecture: AlbertConfig
    checkpoint: Checkpoint | None

    def make_model(self, config: FinetuneConfig) -> AlbertModel:
        """Makes the model, with a new head; call it under the scope.

        Args:
          config: the settings.

        Raises:
          InputError: the checkpoint lacks a part of the encoder.
        """
        arguments = {
            **self.task_type.model_arguments(),
            "dropout": config.head_dropout,
            "packed": not config.fixed_length,
            "rematerialize": config.rematerialize,
        }
        model_class = self.task_type.model_class
        if self.checkpoint is None:
            return model_class(self.architecture, **arguments)
        return model_class.from_checkpoint(
            self.checkpoint, new_head=True, **arguments
        )


def finetune(
    config: FinetuneConfig,
    task_config: TaskConfig,
    files: TaskFiles,
    run_files: Mapping[str, str] | None = None,
) -> FinetuneResult:
    """Runs, or resumes, a fine-tuning run.

    The run's folder holds `run.json` and the tokenizer before the first step,
    then checkpoints and logs as a pretraining run's does, and in the end
    `model/`: the weights that scored best on the development set, see
    `model_folder`.

    Args:
      config: the settings.
      task_config: the task.
      files: what to train on and to be scored on.
      run_files: further text files for the run's folder, name -> content.

    Raises:
      InputError: data, checkpoint, settings or folder do not fit together.
        Nothing was trained or written then.
    """
    result = finetune_runs(config, task_config, files, run_files=run_files)
    return result.results[""]


def finetune_runs(
    config: FinetuneConfig,
    task_config: TaskConfig,
    files: TaskFiles,
    *,
    runs: int = 1,
    run_files: Mapping[str, str] | None = None,
) -> RunsResult:
    """Runs, or resumes, runs with the seeds `config.seed` and on.

    Several runs have the folders `run-0`, `run-1` and so on below the output,
    where `runs.json` then tells their scores and which is the best. Examples
    are read once.

    Args:
      config: the settings.
      task_config: the task.
      files: what to train on and to be scored on.
      runs: how many.
      run_files: see `finetune`.

    Raises:
      InputError: see `finetune`.
    """
    if runs < 1:
        raise InputError(f"runs={runs} must be at least 1")
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
    run = None
    results: dict[str, FinetuneResult] = {}
    for name, each in configs.items():
        if run is None:
            run = _open_run(each, task_config, files)
        else:
            keras.backend.clear_session()
            architecture, _, checkpoint = _open_start(each)
            run = dataclasses.replace(
                run, architecture=architecture, checkpoint=checkpoint
            )
        results[name] = _finetune(run, each, run_files)
        if results[name].training.interrupted:
            break
    result = RunsResult(metric=task_config.key_metric, results=results)
    assert run is not None
    if runs > 1 and is_chief(run.strategy) and not result.interrupted:
        write_atomically(os.path.join(output, RUNS_FILE), result.to_json())
    return result


def _open_run(
    config: FinetuneConfig, task_config: TaskConfig, files: TaskFiles
) -> FinetuneRun:
    """Opens and reads all that a run needs; writes only to the cache."""
    _check_machine(config)
    # Several workers must find each other before anything else of TensorFlow.
    strategy = make_strategy(
        config.distribution,
        tpu=config.tpu,
        tpu_zone=config.tpu_zone,
        gcp_project=config.gcp_project,
    )
    architecture, tokenizer, checkpoint = _open_start(config)
    longest = architecture.max_position_embeddings
    length = task_config.settings["max_seq_length"]
    if length > longest:
        raise InputError(
            f"max_seq_length={length}: the model of {config.init_from} takes "
            f"{longest} tokens at most; lower it"
        )
    task_type = make_task_type(task_config, tokenizer)
    return FinetuneRun(
        strategy=strategy,
        task_type=task_type,
        data=load_data(task_type, files, config.cache_dir),
        architecture=architecture,
        checkpoint=checkpoint,
    )


def _open_start(
    config: FinetuneConfig,
) -> tuple[AlbertConfig, Tokenizer, Checkpoint | None]:
    """Returns the architecture, tokenizer and weights that a run starts from.

    A run that has a checkpoint of its own goes on from that, and does not need
    what it once started from: the weights are None then.

    Raises:
      InputError: it cannot be opened, or has no tokenizer.
    """
    run_dir = os.fspath(config.output)
    if list_checkpoints(os.path.join(run_dir, FOLDER)):
        architecture = load_run_config(run_dir).replace(
            **config.config_overrides
        )
        return architecture, load_tokenizer(run_dir), None
    # The head's type does not matter: it is not used.
    checkpoint = open_checkpoint(
        config.init_from,
        head="classifier_head",
        config_overrides=config.config_overrides,
    )
    if checkpoint.tokenizer is None:
        raise InputError(
            f"init_from={config.init_from}: holds no tokenizer that can be used"
            f"{checkpoint.vocabulary.problem and ': '}"
            f"{checkpoint.vocabulary.problem}; put its files into the folder"
        )
    return checkpoint.config, checkpoint.tokenizer, checkpoint


def _finetune(
    run: FinetuneRun,
    config: FinetuneConfig,
    run_files: Mapping[str, str] | None,
) -> FinetuneResult:
    """Trains, scores and saves one run."""
    task_type, data, strategy = run.task_type, run.data, run.strategy
    task_config = task_type.task_config
    config = config.resolved(
        data.train.num_examples, task_config.key_metric if data.dev else ""
    )
    schedule = SCHEDULES[config.schedule](
        config.learning_rate,
        config.num_train_steps,
        config.warmup_steps,
    )
    resumes = prepare_run_folder(
        config.output,
        config.settings()
        | {"model": run.architecture.to_dict(), "data": data.identity},
        may_change=config.free_on_resume,
        defaults=config.default_settings(),
        files={**(run_files or {}), **tokenizer_files(task_type.tokenizer)},
        writes=is_chief(strategy),
    )
    set_precision(config.precision)
    keras.utils.set_random_seed(config.seed)
    with strategy.scope():
        model = run.make_model(config)
    if is_chief(strategy):
        _say(run_summary(config, run, model, resumes))
    predict = make_batch_predictor(
        strategy,
        model,
        task_type,
        batch_size=config.eval_batch_size,
        fixed_length=config.fixed_length,
    )

    def evaluate() -> dict[str, float]:
        assert data.dev_features is not None
        outputs = predict(data.dev_features)
        predictions = task_type.predictions(
            data.dev, data.dev_features, outputs
        )
        return task_type.scores(data.dev, predictions)

    def batches(start_step: int) -> tf.data.Dataset:
        return training_batches(
            data.train,
            batch_size=config.train_batch_size,
            seed=config.seed,
            start_step=start_step,
            fixed_length=task_type.max_seq_length
            if config.fixed_length
            else None,
        )

    result = Trainer(
        config,
        strategy,
        model,
        task_type.make_loss(),
        make_optimizer(config, model),
        schedule,
        run_dir=config.output,
    ).fit(batches, evaluate=evaluate if data.dev else None)
    if result.interrupted:
        return FinetuneResult(training=result)
    step = _load_best(model, config.output)
    scores: dict[str, float] = {}
    if data.dev:
        scores = _logged_scores(result, step) or evaluate()
        task_config = task_type.with_scores(scores)
    if is_chief(strategy):
        save_model(
            os.path.join(config.output, MODEL_FOLDER),
            model,
            task_type,
            dataclasses.replace(task_config, scores=scores),
        )
    return FinetuneResult(training=result, step=step, scores=scores)


def run_summary(
    config: FinetuneConfig, run: FinetuneRun, model: AlbertModel, resumes: bool
) -> str:
    """Returns lines on what is trained on what, and how."""
    task_config = run.task_type.task_config
    features = run.data.train
    lengths, dev = features.lengths, run.data.dev
    scored = f"{len(dev):,} to score on" if dev else "none to score on"
    what = task_config.task_type
    if task_config.labels:
        what += f" {', '.join(task_config.labels[:8])}"
        what += ", ..." if task_config.labels[8:] else ""
    epochs = (
        config.num_train_steps * config.train_batch_size / features.num_examples
    )
    lines = {
        "task": f"{task_config.name}: {what}",
        "model": f"{model.count_params():,} parameters, from "
        f"{os.fspath(config.init_from)}",
        "examples": f"{features.num_examples:,} to train on, {scored}; "
        f"{lengths.mean():.0f} tokens a sequence, at most {lengths.max()} of "
        f"{run.task_type.max_seq_length}",
        "training": f"{config.num_train_steps:,} steps of "
        f"{config.train_batch_size} ({epochs:.1f} epochs) with "
        f"{config.optimizer}, highest rate {config.learning_rate:.3g} after "
        f"{config.warmup_steps:,} steps",
        "writes": f"{os.fspath(config.output)}, "
        + ("which holds this run already" if resumes else "a new run"),
    }
    return "\n".join(f"{name:9} {text}" for name, text in lines.items())


def _check_machine(config: FinetuneConfig) -> None:
    if "://" in os.fspath(config.output):
        raise InputError(
            f"output={config.output}: the model is written to a local "
            "folder; name one"
        )
    if config.tpu not in (None, LOCAL):
        raise InputError(
            f"tpu={config.tpu!r}: fine-tuning writes to a local folder, which "
            "other machines do not see; use --tpu=local on a TPU VM"
        )
    check_tpu_run(
        config.tpu,
        {},
        precision=config.precision,
        jit_compile=config.jit_compile,
    )


def _logged_scores(result: TrainingResult, step: int) -> dict[str, float]:
    """Returns the scores of a step, {} if the run did not evaluate then.

    To do so again could take minutes.
    """
    logged = result.evaluations.get(step, {})
    return {n: math.nan if x is None else x for n, x in logged.items()}


def _load_best(model: AlbertModel, run_dir: str | os.PathLike[str]) -> int:
    """Gives a model the run's best weights; the newest without a best one."""
    run_dir = os.fspath(run_dir)
    if read_best(os.path.join(run_dir, FOLDER)) is None:
        return load_model_variables(model, run_dir)
    return load_model_variables(model, os.path.join(run_dir, BEST))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
