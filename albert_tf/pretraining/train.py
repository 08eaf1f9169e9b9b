"""A pretraining run, from settings to the last checkpoint."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import get_args

import keras
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.files import writing
from albert_tf.models.flops import pretraining_step_flops
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.pretraining.config import Metric, PretrainConfig
from albert_tf.pretraining.initial_weights import (
    REPORT_FILE,
    InitialWeights,
    resolve_initial_weights,
)
from albert_tf.pretraining.learning_rate import (
    check_rates_so_far,
    describe_scaling,
    make_schedule,
)
from albert_tf.pretraining.loss import PretrainingLoss
from albert_tf.pretraining.manifest import DATA_FILE, sequences_per_row
from albert_tf.pretraining.records import Records, open_records
from albert_tf.pretraining.summary import start_summary
from albert_tf.text.tokenizer_files import tokenizer_files
from albert_tf.training.distribution import (
    check_tpu_run,
    make_strategy,
    set_precision,
)
from albert_tf.training.evaluation import Evaluator
from albert_tf.training.optimizers import make_optimizer
from albert_tf.training.run_folder import FILE, open_run_folder, read_settings
from albert_tf.training.schedules import Schedule
from albert_tf.training.trainer import Trainer, TrainingResult
from albert_tf.training.workers import is_chief

MODEL_CONFIG_FILE = "config.json"


def pretrain(
    config: PretrainConfig, files: Mapping[str, str] | None = None
) -> TrainingResult:
    """Runs, or resumes, a pretraining run.

    Before the first step the run's folder gets `run.json` (settings and
    versions), `config.json`, the tokenizer and `data_manifest.json` (the
    manifest of the records), then checkpoints, `metrics.jsonl` and
    TensorBoard's events. A run that starts from a checkpoint (`init_from`) also
    has `init.txt`, a report of the weights that were loaded, skipped and newly
    initialized.

    Args:
      config: the settings.
      files: text files that describe the command, such as its flags, for the
        run's folder: name -> content.

    Returns:
      The result of training. Its `evaluation` has the metrics of the held-out
      split and the baselines of `Records.baselines`; it is empty without one.

    Raises:
      InputError: records, architecture and folder do not fit together. Nothing
        was trained or written then.
    """
    check_tpu_run(
        config.tpu,
        {"input": config.input, "output": config.output},
        precision=config.precision,
        jit_compile=config.jit_compile,
    )
    # Several workers must find each other before anything else of TensorFlow.
    strategy = make_strategy(
        config.distribution,
        tpu=config.tpu,
        tpu_zone=config.tpu_zone,
        gcp_project=config.gcp_project,
    )
    config, initial = resolve_initial_weights(config)
    records = open_records(config.input, heldout=True)
    pair_task = _pair_task(config, records)
    _check_records(config, records, initial, pair_task)
    settings = config.settings() | {"records": records.identity}
    if pair_task == "nsp":
        settings["pair_task"] = pair_task
    schedule = make_schedule(config)
    check_rates_so_far(config)
    with open_run_folder(
        config.output,
        settings,
        may_change=config.free_on_resume,
        defaults=config.default_settings(),
        files=_run_files(config, records, initial),
        command_files=files,
        strategy=strategy,
    ) as folder:
        if initial and folder.resumes:
            initial.check_unchanged(config.output)
        set_precision(config.precision)
        keras.utils.set_random_seed(config.seed)
        with strategy.scope():
            model = AlbertPretrainer(
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
            summary = start_summary(config, records, model, strategy, resumes)
            print(summary, file=sys.stderr, flush=True)

        loss = PretrainingLoss(pair_task)
        result = _train(config, records, model, loss, schedule, strategy, start)
    if not result.evaluation:
        return result
    evaluation = {**result.evaluation, **records.baselines("heldout")}
    return dataclasses.replace(result, evaluation=evaluation)


def _pair_task(config: PretrainConfig, records: Records) -> str:
    """Returns the prefix of the names of the scores of pairs."""
    run = os.path.join(config.output, FILE)
    # Runs begun before NSP had names of its own go on with those in their log.
    if records.pair_task == "nsp" and tf.io.gfile.exists(run):
        return read_settings(config.output).get("pair_task", "sop")
    return records.pair_task


def _check_records(
    config: PretrainConfig,
    records: Records,
    initial: InitialWeights | None,
    pair_task: str,
) -> None:
    """Checks that records fit the model, its start and its evaluation."""
    tokenizer = records.tokenizer
    if initial:
        initial.check_tokenizer(tokenizer)
    if tokenizer and tokenizer.vocab_size != config.architecture.vocab_size:
        raise InputError(
            f"records {config.input}: made with a vocabulary of "
            f"{tokenizer.vocab_size} pieces, but the model has vocab_size="
            f"{config.architecture.vocab_size}; add "
            "--config_overrides=vocab_size="
            f"{tokenizer.vocab_size} or use the right records"
        )
    records.check_model(config.architecture)
    best_metric = config.best_metric
    scored = ("loss", "mlm", pair_task)
    known = [
        name
        for name in filter(None, get_args(Metric))
        if "heldout" in records.files and name.split("_")[0] in scored
    ]
    if best_metric and best_metric not in known:
        raise InputError(
            f"best_metric={best_metric!r}: the evaluation on records "
            f"{config.input} has "
            f"{', '.join(known) or 'no held-out split'}"
        )


def _run_files(
    config: PretrainConfig, records: Records, initial: InitialWeights | None
) -> dict[str, str | bytes]:
    """Returns the files that a new run's folder holds from the start."""
    trained_before = initial.trained_positions if initial else 0
    files: dict[str, str | bytes] = {
        MODEL_CONFIG_FILE: config.architecture.replace(
            trained_positions=max(trained_before, records.max_seq_length)
        ).to_json()
    }
    if records.tokenizer:
        files |= tokenizer_files(records.tokenizer)
    if records.manifest:
        files[DATA_FILE] = json.dumps(records.manifest, indent=2) + "\n"
    if initial:
        files[REPORT_FILE] = initial.report + "\n"
    return files


def _train(
    config: PretrainConfig,
    records: Records,
    model: AlbertPretrainer,
    loss: PretrainingLoss,
    schedule: Schedule,
    strategy: tf.distribute.Strategy,
    start: Callable[[], None],
) -> TrainingResult:
    """Trains the model from its last checkpoint, if any, to the last step.

    Args:
      config: the settings.
      records: what to train on, and be scored on.
      model: the model.
      schedule: the learning rates.
      strategy: the strategy of the model.
      start: called when everything is checked, before the first step.
    """

    def batches(start_step: int) -> tf.data.Dataset:
        return records.dataset(
            config.train_batch_size,
            seed=config.seed,
            start_step=start_step,
            model=config.architecture,
        )

    evaluate = None
    if "heldout" in records.files:
        size = config.eval_batch_size
        evaluator = Evaluator(strategy, model, loss, size)
        heldout = records.dataset(
            size, training=False, split="heldout", model=config.architecture
        )

        def evaluate():
            return evaluator(heldout, config.max_eval_steps or None)

    with (
        records.explained_errors(config.architecture),
        writing(config.output),
    ):
        return Trainer(
            config,
            strategy,
            model,
            loss,
            make_optimizer(config, model),
            schedule,
            run_dir=config.output,
        ).fit(
            batches,
            evaluate=evaluate,
            start=start,
            flops_per_example=pretraining_step_flops(
                config.architecture,
                records.max_seq_length,
                records.max_predictions_per_seq,
                records.pair_task != "none",
                sequences_per_row(records.manifest),
            ),
        )
