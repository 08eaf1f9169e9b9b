"""A fine-tuning run: data, model, optimizer and loop put together."""

from __future__ import annotations

import dataclasses
import math
import os
import sys
from collections.abc import Mapping

import keras
import tensorflow as tf

from albert_tf.data.features.batches import training_batches
from albert_tf.errors import InputError
from albert_tf.interop.formats.run_folder import MODEL_FOLDER
from albert_tf.models.base import AlbertModel
from albert_tf.tasks.finetuning.config import FREE_ON_RESUME, FinetuneConfig
from albert_tf.tasks.finetuning.data import TaskData, TaskFiles, load_data
from albert_tf.tasks.finetuning.description import TaskDescription
from albert_tf.tasks.finetuning.dev_scores import DevScores, make_predictor
from albert_tf.tasks.finetuning.kinds.base import TaskKind
from albert_tf.tasks.finetuning.kinds.by_name import make_kind
from albert_tf.tasks.finetuning.model_folder import save_model
from albert_tf.tasks.finetuning.start import Start, open_start
from albert_tf.tasks.optimization import named_optimizer, named_schedule
from albert_tf.text.tokenizer_files import tokenizer_files
from albert_tf.training.best_checkpoint import read_best
from albert_tf.training.checkpoint_files import BEST, FOLDER
from albert_tf.training.distribution import make_strategy, set_precision
from albert_tf.training.loop import TrainingResult, train
from albert_tf.training.run_folder import prepare_run_folder
from albert_tf.training.saved_values import load_model_variables
from albert_tf.training.tpu import LOCAL, check_tpu_run
from albert_tf.training.workers import is_chief


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuneResult:
    """What a run did.

    Attributes:
      training: what the loop did.
      step: the step whose weights the model has; None: the run was interrupted,
        so there is no model yet.
      scores: of the model on the development set, the key metric first; empty
        if there is none.
    """

    training: TrainingResult
    step: int | None = None
    scores: Mapping[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PreparedRun:
    """What is known before a run begins, and does not depend on its seed.

    Attributes:
      strategy: where to train.
      start: what to start from.
      kind: the task.
      data: what to train on and to be scored on.
    """

    strategy: tf.distribute.Strategy
    start: Start
    kind: TaskKind
    data: TaskData


def finetune(
    config: FinetuneConfig,
    description: TaskDescription,
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
      description: the task.
      files: what to train on and to be scored on.
      run_files: further text files for the run's folder, name -> content.

    Raises:
      InputError: data, checkpoint, settings or folder do not fit together.
        Nothing was trained or written then.
    """
    return finetune_prepared(
        prepare_finetuning(config, description, files), config, run_files
    )


def prepare_finetuning(
    config: FinetuneConfig, description: TaskDescription, files: TaskFiles
) -> PreparedRun:
    """Opens and reads all that a run needs; writes nothing but the cache.

    Raises:
      InputError: see `finetune`.
    """
    _check_machine(config)
    # Several workers must find each other before anything else of TensorFlow.
    strategy = make_strategy(
        config.distribution,
        tpu=config.tpu,
        tpu_zone=config.tpu_zone,
        gcp_project=config.gcp_project,
    )
    start = open_start(config)
    longest = start.architecture.max_position_embeddings
    length = description.settings["max_seq_length"]
    if length > longest:
        raise InputError(
            f"max_seq_length={length}: the model of {config.init_from} takes "
            f"{longest} tokens at most; lower it"
        )
    kind = make_kind(description, start.tokenizer)
    data = load_data(kind, files, config.cache_dir)
    return PreparedRun(strategy=strategy, start=start, kind=kind, data=data)


def finetune_prepared(
    run: PreparedRun,
    config: FinetuneConfig,
    run_files: Mapping[str, str] | None = None,
) -> FinetuneResult:
    """Runs, or resumes, what `prepare_finetuning` has prepared."""
    kind, data, strategy = run.kind, run.data, run.strategy
    description = kind.description
    config = config.resolved(
        data.rows.num_examples, description.key_metric if data.dev else ""
    )
    schedule = named_schedule(
        config.schedule,
        config.learning_rate,
        config.training.total_steps,
        config.warmup_steps,
    )
    architecture = run.start.architecture
    resumes = prepare_run_folder(
        config.output_dir,
        config.settings()
        | {"model": architecture.to_dict(), "data": data.identity},
        may_change=FREE_ON_RESUME,
        defaults=config.default_settings(),
        files={**(run_files or {}), **tokenizer_files(kind.tokenizer)},
        writes=is_chief(strategy),
    )
    set_precision(config.precision)
    keras.utils.set_random_seed(config.training.seed)
    with strategy.scope():
        model = run.start.make_model(kind, config)
    if is_chief(strategy):
        _say(start_summary(config, run, model, resumes))
    evaluate = data.dev and DevScores(
        kind,
        data.dev,
        make_predictor(
            strategy,
            model,
            kind,
            batch_size=config.predict_batch_size,
            fixed_length=config.fixed_length,
        ),
    )

    def batches(start_step: int) -> tf.data.Dataset:
        return training_batches(
            data.rows,
            batch_size=config.train_batch_size,
            seed=config.training.seed,
            start_step=start_step,
            fixed_length=kind.max_seq_length if config.fixed_length else None,
        )

    result = train(
        config.training,
        strategy,
        model,
        kind.training_task(),
        named_optimizer(
            config.optimizer,
            model,
            weight_decay=config.weight_decay,
            layerwise_lr_decay=config.layerwise_lr_decay,
        ),
        schedule,
        batches,
        run_dir=config.output_dir,
        evaluate=evaluate,
    )
    if result.interrupted:
        return FinetuneResult(training=result)
    step = _load_best(model, config.output_dir)
    scores: dict[str, float] = {}
    if evaluate:
        scores = _logged_scores(result, step) or evaluate()
        description = kind.fitted(scores)
    if is_chief(strategy):
        save_model(
            os.path.join(config.output_dir, MODEL_FOLDER),
            model,
            kind,
            dataclasses.replace(description, scores=scores),
        )
    return FinetuneResult(training=result, step=step, scores=scores)


def start_summary(
    config: FinetuneConfig, run: PreparedRun, model: AlbertModel, resumes: bool
) -> str:
    """Returns lines on what is trained on what, and how."""
    kind, rows, training = run.kind, run.data.rows, config.training
    description, lengths = kind.description, rows.lengths
    dev = run.data.dev
    scored = f"{len(dev.examples):,} to score on" if dev else "none to score on"
    what = description.kind
    if description.labels:
        what += f" {', '.join(description.labels[:8])}"
        what += ", ..." if description.labels[8:] else ""
    epochs = training.total_steps * config.train_batch_size / rows.num_examples
    lines = {
        "task": f"{description.name}: {what}",
        "model": f"{model.count_params():,} parameters, from "
        f"{os.fspath(config.init_from)}",
        "examples": f"{rows.num_examples:,} to train on, {scored}; "
        f"{lengths.mean():.0f} tokens a row, at most {lengths.max()} of "
        f"{kind.max_seq_length}",
        "training": f"{training.total_steps:,} steps of "
        f"{config.train_batch_size} ({epochs:.1f} epochs) with "
        f"{config.optimizer}, highest rate {config.learning_rate:.3g} after "
        f"{config.warmup_steps:,} steps",
        "writes": f"{os.fspath(config.output_dir)}, "
        + ("which holds this run already" if resumes else "a new run"),
    }
    return "\n".join(f"{name:9} {text}" for name, text in lines.items())


def _check_machine(config: FinetuneConfig) -> None:
    if "://" in os.fspath(config.output_dir):
        raise InputError(
            f"output={config.output_dir}: the model is written to a local "
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
        jit_compile=config.training.jit_compile,
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
