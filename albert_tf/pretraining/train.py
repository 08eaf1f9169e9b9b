"""Pretraining runs, from the settings to the last checkpoint."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.files import writing
from albert_tf.models.base import AlbertModel
from albert_tf.objectives.objective import Objective
from albert_tf.objectives.registry import load_objective_module
from albert_tf.pretraining.config import PretrainConfig
from albert_tf.pretraining.corpora import describe_corpora
from albert_tf.pretraining.evaluate import record_scores
from albert_tf.pretraining.initial_weights import (
    REPORT_FILE,
    InitialWeights,
    repeat_trained_positions,
    resolve_initial_weights,
)
from albert_tf.pretraining.manifest import DATA_FILE, sequences_per_row
from albert_tf.pretraining.mixture import plain_patterns
from albert_tf.pretraining.phase_records import (
    PhaseRecords,
    check_best_metric,
    open_phases,
    phase_objective,
    trained_positions,
)
from albert_tf.pretraining.records import Records
from albert_tf.pretraining.summary import start_summary
from albert_tf.text.tokenizer_files import tokenizer_files
from albert_tf.training.checkpoint_files import FOLDER, list_checkpoints
from albert_tf.training.distribution import (
    check_tpu_run,
    make_strategy,
    set_precision,
)
from albert_tf.training.evaluation import Evaluator
from albert_tf.training.optimizers import make_optimizer
from albert_tf.training.phases import TrainingPhase
from albert_tf.training.run_folder import FILE, open_run_folder, read_settings
from albert_tf.training.schedules import SCHEDULES, Schedule
from albert_tf.training.trainer import Trainer, TrainingResult
from albert_tf.training.workers import is_chief

MODEL_CONFIG_FILE = "config.json"


def pretrain(
    config: PretrainConfig, files: Mapping[str, str] | None = None
) -> TrainingResult:
    """Starts or resumes a pretraining run.

    Before the first step, `run.json` (settings and versions), `config.json`,
    the tokenizer and `data_manifest.json` are written to the folder of the run;
    then checkpoints, `metrics.jsonl` and TensorBoard's events. The manifest is
    that of the last phase's records; for a mixture, it has the settings and the
    sizes of the corpora. A run that starts from a checkpoint (`init_from`) also
    has `init.txt`, a report of the weights that were loaded, skipped and newly
    initialized.

    Args:
      config: the settings.
      files: text files that describe the command, such as its flags, to write
        to the folder of the run: name -> content.

    Returns:
      The result of training. Its `evaluation` has the metrics of the held-out
      split of the last phase's records and `Records.baselines`; it is empty
      without a held-out split.

    Raises:
      InputError: if records, architecture and folder do not fit together.
        Nothing is trained or written then.
    """
    for resolved in config.resolved_phases():
        check_tpu_run(
            config.tpu,
            {
                "input": plain_patterns(resolved.config.input),
                "output": config.output,
            },
            precision=config.precision,
            jit_compile=config.jit_compile,
        )
    if config.objective_module is not None:
        load_objective_module(config.objective_module)
    # Workers have to connect before TensorFlow initializes its devices.
    strategy = make_strategy(
        config.distribution,
        tpu=config.tpu,
        tpu_zone=config.tpu_zone,
        gcp_project=config.gcp_project,
    )
    config, initial = resolve_initial_weights(config)
    phases = open_phases(config)
    for phase in phases:
        _check_records(phase.resolved.config, phase.original, initial)
    heldout = phases[-1].heldout
    objectives = [phase_objective(config, phase.records) for phase in phases]
    check_best_metric(config, heldout)
    trained = trained_positions(
        config, phases, initial.trained_positions if initial else None
    )
    settings = config.settings() | {"records": phases[0].records.identity}
    for recorded, phase, positions in zip(
        settings.get("phases", ()), phases, trained, strict=False
    ):
        recorded["records"] = phase.records.identity
        recorded["trained_positions"] = positions
    if "nsp" in [objective.pair_task for objective in objectives]:
        settings["pair_task"] = "nsp"
    schedule = make_schedule(config)
    check_past_rates(config)
    with open_run_folder(
        config.output,
        settings,
        may_change=config.free_on_resume,
        defaults=config.default_settings(),
        files=_run_files(config, heldout, initial, max(trained)),
        command_files=files,
        strategy=strategy,
    ) as folder:
        if initial and folder.resumes:
            initial.check_unchanged(config.output)
        set_precision(config.precision)
        keras.utils.set_random_seed(config.seed)
        with strategy.scope():
            model = objectives[0].make_model(
                config.architecture, rematerialize=config.rematerialize
            )
            if initial:
                initial.assign(model)

        def start() -> None:
            folder.claim()
            if not is_chief(strategy):
                return
            if config.scale_lr_with_batch:
                print(describe_scaling(config), file=sys.stderr)
            if initial:
                print(initial.report, file=sys.stderr)
            resumes = folder.resumes
            summary = start_summary(config, phases, model, strategy, resumes)
            print(summary, file=sys.stderr, flush=True)

        training_phases = [
            _training_phase(*each)
            for each in zip(phases, objectives, [None, *trained], strict=False)
        ]
        result = _train(
            config, phases, training_phases, model, schedule, strategy, start
        )
    if not result.evaluation:
        return result
    evaluation = {**result.evaluation, **heldout.baselines("heldout")}
    return dataclasses.replace(result, evaluation=evaluation)


def make_schedule(config: PretrainConfig) -> Schedule:
    """Creates the learning-rate schedule of a run.

    Raises:
      InputError: if warm-up and decay have more steps than the run.
    """
    options: dict[str, dict[str, float]] = {
        "polynomial": {
            "power": config.poly_power,
            "start_warmup_step": config.start_warmup_step,
        },
        "linear": {},
        "cosine": {"final_fraction": config.final_lr_fraction},
        "warmup_stable_decay": {"decay_steps": config.decay_steps},
    }
    return SCHEDULES[config.schedule](
        config.resolved_learning_rate,
        config.num_train_steps,
        config.resolved_warmup_steps,
        **options[config.schedule],
    )


def describe_scaling(config: PretrainConfig) -> str:
    """Returns a log line about the effect of `scale_lr_with_batch`."""
    num_train_steps = config.num_train_steps
    return (
        f"batch {config.train_batch_size}, scaled from "
        f"{config.reference_batch_size}: learning rate "
        f"{config.resolved_learning_rate:.6g}, warm-up "
        f"{config.resolved_warmup_steps} of {num_train_steps} steps"
    )


def check_past_rates(config: PretrainConfig) -> None:
    """Checks that the updates of a resumed run had the right learning rates.

    With the schedule "warmup_stable_decay", `num_train_steps` and `decay_steps`
    may change when a run is resumed, but not the learning rates of the updates
    up to the newest checkpoint.

    Raises:
      InputError: if the rate of an update differs, or more updates are done
        than `num_train_steps`.
    """
    folder = os.fspath(config.output)
    if "num_train_steps" not in config.free_on_resume:
        return
    if not tf.io.gfile.exists(os.path.join(folder, FILE)):
        return
    old = config.default_settings() | read_settings(folder)
    if old["schedule"] != config.schedule:
        return  # `open_run_folder` reports the difference.
    before = dataclasses.replace(
        config,
        phases=(),  # They do not affect learning rates.
        decay_steps=old["decay_steps"],
        num_train_steps=old["num_train_steps"],
    )
    step = max(list_checkpoints(os.path.join(folder, FOLDER)), default=0)
    num_train_steps = config.num_train_steps
    if step > num_train_steps:
        raise InputError(
            f"{folder}: {step} steps are done, more than num_train_steps="
            f"{num_train_steps}; remove the checkpoints after that step to go "
            "back"
        )
    done = tf.range(step)
    old_rates, new_rates = (
        make_schedule(c)(done).numpy() for c in (before, config)
    )
    differ = np.flatnonzero(old_rates != new_rates)
    if differ.size:
        first = differ[0]
        raise InputError(
            f"{folder}: step {first} of the {step} that are done had the "
            f"learning rate {old_rates[first]:.6g}, but would have "
            f"{new_rates[first]:.6g} with num_train_steps={num_train_steps} "
            f"and decay_steps={config.decay_steps}; start the decay at the "
            f"newest checkpoint or later, or remove the checkpoints after "
            f"step {first}"
        )


def _check_records(
    config: PretrainConfig,
    records: Records,
    initial: InitialWeights | None,
) -> None:
    """Checks that records fit the model and its initial weights."""
    tokenizer = records.tokenizer
    if initial:
        initial.check_tokenizer(tokenizer)
    if tokenizer and tokenizer.vocab_size != config.architecture.vocab_size:
        raise InputError(
            f"records {config.input}: made with a vocabulary of "
            f"{tokenizer.vocab_size} pieces, but the model has vocab_size="
            f"{config.architecture.vocab_size}; add "
            f"--config_overrides=vocab_size={tokenizer.vocab_size} or use "
            "other records"
        )
    records.check_model(config.architecture)


def _run_files(
    config: PretrainConfig,
    records: Records,
    initial: InitialWeights | None,
    trained_positions: int,
) -> dict[str, str | bytes]:
    """Returns the files that are written before the first step."""
    files: dict[str, str | bytes] = {
        MODEL_CONFIG_FILE: config.architecture.replace(
            trained_positions=trained_positions
        ).to_json()
    }
    if records.tokenizer:
        files |= tokenizer_files(records.tokenizer)
    if records.manifest:
        manifest = dict(records.manifest)
        if records.corpora:
            # The other entries are only about the first corpus.
            kept = ("format", "version", "settings", "tokenizer", "versions")
            manifest = {x: manifest[x] for x in kept if x in manifest} | {
                "splits": {},
                "corpora": describe_corpora(
                    records.corpora, itertools.chain(*records.files.values())
                ),
            }
        files[DATA_FILE] = json.dumps(manifest, indent=2) + "\n"
    if initial:
        files[REPORT_FILE] = initial.report + "\n"
    return files


def _train(
    config: PretrainConfig,
    phases: Sequence[PhaseRecords],
    training_phases: Sequence[TrainingPhase],
    model: AlbertModel,
    schedule: Schedule,
    strategy: tf.distribute.Strategy,
    start: Callable[[], None],
) -> TrainingResult:
    """Trains the model to the last step.

    Args:
      config: the settings.
      phases: the phases; the records of the last one are evaluated.
      training_phases: the same for the trainer.
      model: the model.
      schedule: the learning-rate schedule.
      strategy: the strategy of the model.
      start: called once everything is checked, before the first step.
    """
    evaluate = None
    heldout = phases[-1].heldout
    if "heldout" in heldout.files:
        size = config.eval_batch_size
        objective = phase_objective(config, heldout)
        scores = record_scores(
            Evaluator(strategy, model, objective, size),
            heldout,
            "heldout",
            size,
            config.architecture,
        )
        evaluate = functools.partial(scores, config.max_eval_steps)

    with contextlib.ExitStack() as stack:
        for phase in phases:
            stack.enter_context(
                phase.original.explained_errors(config.architecture)
            )
        stack.enter_context(writing(config.output))
        return Trainer(
            config,
            strategy,
            model,
            training_phases[0].loss,
            make_optimizer(config, model),
            schedule,
            run_dir=config.output,
        ).fit(training_phases, evaluate=evaluate, start=start)


def _training_phase(
    phase: PhaseRecords, objective: Objective, trained: int | None
) -> TrainingPhase:
    """Returns a phase for the trainer.

    Args:
      phase: the phase and its records.
      objective: its objective.
      trained: number of positions that earlier phases train; None for the first
        phase.
    """
    config, records = phase.resolved.config, phase.records
    begin = None
    if trained is not None and records.max_seq_length > trained:
        begin = functools.partial(repeat_trained_positions, trained)

    def dataset_fn(
        first_batch: int,
        input_context: tf.distribute.InputContext | None = None,
    ) -> tf.data.Dataset:
        size = config.train_batch_size
        return records.dataset(
            size,
            seed=config.seed,
            first_example=phase.first_example + first_batch * size,
            model=config.architecture,
            reading_groups=config.reading_groups,
            input_context=input_context,
        )

    return TrainingPhase(
        first_step=phase.resolved.first_step,
        dataset_fn=dataset_fn,
        loss=objective,
        gradient_accumulation_steps=config.gradient_accumulation_steps,
        flops_per_example=objective.step_flops(
            config.architecture,
            records.max_seq_length,
            records.max_predictions_per_seq,
            sequences_per_row(records.manifest),
        ),
        name=phase.describe(),
        num_shards=config.reading_groups,
        begin=begin,
    )
