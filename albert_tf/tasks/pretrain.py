"""A pretraining run: records, model, optimizer and loop put together."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

import keras
import tensorflow as tf

from albert_tf.data.check_records import verify_records
from albert_tf.errors import InputError
from albert_tf.models.flops import pretraining_step_flops
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.tasks.initial_weights import REPORT_FILE, resolve_start
from albert_tf.tasks.optimization import (
    check_rates_so_far,
    describe_scaling,
    make_optimizer,
    make_schedule,
)
from albert_tf.tasks.pretrain_config import PretrainConfig
from albert_tf.tasks.pretrain_summary import start_summary
from albert_tf.tasks.pretraining import pretraining_task
from albert_tf.tasks.pretraining_records import open_records, records_tokenizer
from albert_tf.text.tokenizer_files import tokenizer_files
from albert_tf.training.distribution import make_strategy, set_precision
from albert_tf.training.evaluation import Evaluator
from albert_tf.training.loop import TrainingResult, train
from albert_tf.training.run_folder import prepare_run_folder
from albert_tf.training.tpu import check_tpu_run
from albert_tf.training.workers import is_chief

MODEL_CONFIG_FILE = "config.json"
DATA_FILE = "data_manifest.json"


def pretrain(
    config: PretrainConfig, files: Mapping[str, str] | None = None
) -> TrainingResult:
    """Runs, or resumes, a pretraining run.

    The run's folder holds `run.json` (settings and versions), `config.json`,
    the tokenizer and `data_manifest.json` (that of the records) before the
    first step, then checkpoints, `metrics.jsonl` and TensorBoard's events. A
    run that starts from a checkpoint (`init_from`) has also `init.txt`, which
    says what was read, left and made of it.

    Args:
      config: the settings.
      files: further text files for the run's folder, name -> content.

    Returns:
      What the loop did; its `evaluation` is of the held-out split, if there is
      one.

    Raises:
      InputError: records, architecture and folder do not fit together. Nothing
        was trained or written then.
    """
    check_tpu_run(
        config.tpu,
        {"input": config.input_patterns, "output": config.output_dir},
        precision=config.precision,
        jit_compile=config.training.jit_compile,
    )
    # Several workers must find each other before anything else of TensorFlow.
    strategy = make_strategy(
        config.distribution,
        tpu=config.tpu,
        tpu_zone=config.tpu_zone,
        gcp_project=config.gcp_project,
    )
    config, initial = resolve_start(config)
    tokenizer = records_tokenizer(config.input_patterns)
    if initial:
        initial.check_tokenizer(tokenizer)
        initial.check_unchanged(config.output_dir)
    if tokenizer and tokenizer.vocab_size != config.model.vocab_size:
        raise InputError(
            f"records {config.input_patterns}: made with a vocabulary of "
            f"{tokenizer.vocab_size} pieces, but the model has vocab_size="
            f"{config.model.vocab_size}; add --config_overrides=vocab_size="
            f"{tokenizer.vocab_size} or use the right records"
        )
    records = open_records(config.input_patterns, config.model)
    best_metric = config.training.best_metric
    if best_metric and best_metric not in records.metrics():
        known = ", ".join(records.metrics())
        raise InputError(
            f"best_metric={best_metric!r}: the evaluation on records "
            f"{config.input_patterns} has {known or 'no held-out split'}"
        )
    run_files: dict[str, str | bytes] = {
        MODEL_CONFIG_FILE: config.model.to_json(),
        **(files or {}),
    }
    if tokenizer:
        run_files |= tokenizer_files(tokenizer)
    if records.manifest:
        run_files[DATA_FILE] = json.dumps(records.manifest, indent=2) + "\n"
    if initial:
        run_files[REPORT_FILE] = initial.report + "\n"
    schedule = make_schedule(config)
    check_rates_so_far(config)
    resumes = prepare_run_folder(
        config.output_dir,
        config.settings() | {"records": records.identity()},
        may_change=config.free_on_resume,
        defaults=config.default_settings(),
        files=run_files,
        writes=is_chief(strategy),
    )
    if config.scale_lr_with_batch and is_chief(strategy):
        print(describe_scaling(config), file=sys.stderr, flush=True)
    set_precision(config.precision)
    keras.utils.set_random_seed(config.training.seed)
    with strategy.scope():
        model = AlbertPretrainer(
            config.model, rematerialize=config.rematerialize
        )
        if initial:
            initial.assign(model)
            if is_chief(strategy):
                print(initial.report, file=sys.stderr, flush=True)
    if is_chief(strategy):
        summary = start_summary(config, records, model, strategy, resumes)
        print(summary, file=sys.stderr, flush=True)
    task = pretraining_task(records.manifest)
    optimizer = make_optimizer(config, model)

    def batches(start_step: int) -> tf.data.Dataset:
        return records.dataset(
            config.train_batch_size,
            seed=config.training.seed,
            start_step=start_step,
        )

    evaluate = None
    if records.has_heldout:
        evaluator = Evaluator(strategy, model, task)
        heldout = records.dataset(
            config.eval_batch_size, training=False, split="heldout"
        )

        def evaluate():
            return evaluator(heldout, config.max_eval_steps or None)

    try:
        return train(
            config.training,
            strategy,
            model,
            task,
            optimizer,
            schedule,
            batches,
            run_dir=config.output_dir,
            evaluate=evaluate,
            flops_per_example=pretraining_step_flops(
                config.model,
                records.max_seq_length,
                records.max_predictions_per_seq,
                task.sentence_order,
            ),
        )
    except tf.errors.DataLossError:
        # TensorFlow does not say which file is damaged; this does.
        for split in ("train", "heldout") if evaluate else ("train",):
            verify_records(config.input_patterns, split)
        raise
