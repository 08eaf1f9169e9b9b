"""A pretraining run: records, model, optimizer and loop put together."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.data.check_records import check_records, verify_records
from albert_tf.data.input_pipeline import pretraining_dataset
from albert_tf.data.record_files import find_record_files
from albert_tf.errors import InputError
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.tasks.pretrain_config import PretrainConfig
from albert_tf.tasks.pretraining import PretrainingTask
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.tokenizer_files import load_tokenizer, tokenizer_files
from albert_tf.training.checkpoints import load_model_variables
from albert_tf.training.distribution import (
    is_chief,
    make_strategy,
    set_precision,
)
from albert_tf.training.evaluation import Evaluator
from albert_tf.training.loop import TrainingResult, train
from albert_tf.training.optimizers import AdamW, Lamb
from albert_tf.training.run_folder import prepare_run_folder, read_settings
from albert_tf.training.schedules import polynomial_decay

MODEL_CONFIG_FILE = "config.json"


def pretrain(
    config: PretrainConfig, files: Mapping[str, str] | None = None
) -> TrainingResult:
    """Runs, or resumes, a pretraining run.

    The run's folder holds `run.json` (settings and versions), `config.json` and
    the tokenizer before the first step, then checkpoints, `metrics.jsonl` and
    TensorBoard's events.

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
    manifest = records_manifest(config.input_patterns)
    length, predictions = check_records(
        config.input_patterns, vocab_size=config.model.vocab_size
    )
    if length > config.model.max_position_embeddings:
        raise InputError(
            f"records {config.input_patterns}: {length} tokens a record, more "
            "than the model's max_position_embeddings="
            f"{config.model.max_position_embeddings}"
        )
    tokenizer = _tokenizer_of(config.input_patterns, manifest)
    if tokenizer and tokenizer.vocab_size != config.model.vocab_size:
        raise InputError(
            f"records {config.input_patterns}: made with a vocabulary of "
            f"{tokenizer.vocab_size} pieces, but the model has vocab_size="
            f"{config.model.vocab_size}; add --config_overrides=vocab_size="
            f"{tokenizer.vocab_size} or use the right records"
        )
    strategy = make_strategy(
        config.distribution,
        tpu=config.tpu,
        tpu_zone=config.tpu_zone,
        gcp_project=config.gcp_project,
    )
    run_files: dict[str, str | bytes] = {
        MODEL_CONFIG_FILE: config.model.to_json(),
        **(files or {}),
    }
    if tokenizer:
        run_files |= tokenizer_files(tokenizer)
    prepare_run_folder(
        config.output_dir,
        config.settings() | {"records": _identity(config.input_patterns)},
        may_change=config.FREE_ON_RESUME,
        files=run_files,
        writes=is_chief(strategy),
    )
    set_precision(config.precision)
    keras.utils.set_random_seed(config.training.seed)
    with strategy.scope():
        model = AlbertPretrainer(config.model)
    task = pretraining_task(manifest)
    optimizer = {"lamb": Lamb, "adamw": AdamW}[config.optimizer](
        weight_decay=config.weight_decay
    )
    sizes = {"max_seq_length": length, "max_predictions_per_seq": predictions}

    def batches(start_step: int) -> tf.data.Dataset:
        return pretraining_dataset(
            config.input_patterns,
            global_batch_size=config.train_batch_size,
            seed=config.training.seed,
            start_step=start_step,
            **sizes,
        )

    evaluate = None
    if manifest and "heldout" in manifest["splits"]:
        evaluator = Evaluator(strategy, model, task)
        heldout = pretraining_dataset(
            config.input_patterns,
            global_batch_size=config.eval_batch_size,
            training=False,
            split="heldout",
            **sizes,
        )

        def evaluate():
            return evaluator(heldout, config.max_eval_steps or None)

    schedule = polynomial_decay(
        config.learning_rate,
        config.training.total_steps,
        config.num_warmup_steps,
        config.poly_power,
        config.start_warmup_step,
    )
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
        )
    except tf.errors.DataLossError:
        # TensorFlow does not say which file is damaged; this does.
        for split in ("train", "heldout") if evaluate else ("train",):
            verify_records(config.input_patterns, split)
        raise


def evaluate_pretraining(
    run_dir: str | os.PathLike[str],
    input_patterns: str | Sequence[str],
    *,
    split: str = "heldout",
    batch_size: int = 64,
    max_steps: int = 0,
) -> dict[str, float]:
    """Scores the newest checkpoint of a run on records it was not trained on.

    Args:
      run_dir: the folder of the run.
      input_patterns: a folder of records, or globs.
      split: "heldout" or "train", for a folder.
      batch_size: examples of a batch.
      max_steps: most batches; 0 for all.

    Returns:
      Metrics by name, and where the records have a manifest the baselines
      `mlm_unigram_accuracy` (always the most frequent training label) and
      `sop_chance` (always the more frequent order).
    """
    config = load_run_config(run_dir)
    length, predictions = check_records(
        input_patterns, vocab_size=config.vocab_size, split=split
    )
    manifest = records_manifest(input_patterns, split)
    set_precision(read_settings(run_dir)["precision"])
    strategy = make_strategy()
    with strategy.scope():
        model = AlbertPretrainer(config)
    step = load_model_variables(model, run_dir)
    task = pretraining_task(manifest)
    dataset = pretraining_dataset(
        input_patterns,
        global_batch_size=batch_size,
        training=False,
        split=split,
        max_seq_length=length,
        max_predictions_per_seq=predictions,
    )
    metrics = Evaluator(strategy, model, task)(dataset, max_steps or None)
    return {"step": step} | metrics | baselines(manifest, split)


def baselines(
    manifest: Mapping[str, Any] | None, split: str = "heldout"
) -> dict[str, float]:
    """Returns what a model that has learned nothing scores on a split."""
    if manifest is None:
        return {}
    description = manifest["splits"][split]
    found = {"mlm_unigram_accuracy": description["constant_guess_accuracy"]}
    if pretraining_task(manifest).sentence_order:
        labels = description["labels"]
        found["sop_chance"] = max(labels.values()) / sum(labels.values())
    return found


def load_run_config(run_dir: str | os.PathLike[str]) -> AlbertConfig:
    """Returns the architecture of a run."""
    return AlbertConfig.from_dict(
        read_settings(run_dir)["model"], source=f"run {os.fspath(run_dir)}"
    )


def pretraining_task(manifest: Mapping[str, Any] | None) -> PretrainingTask:
    """Returns the task that fits the records: without sentence order or with.

    Records without a manifest are taken to have sentence pairs, as Google's do.
    """
    if manifest is None:
        return PretrainingTask()
    order = manifest["settings"]["sentence_order"]
    return PretrainingTask(sentence_order=order != "none")


def records_manifest(
    input_patterns: str | Sequence[str], split: str = "train"
) -> dict[str, Any] | None:
    """Returns the manifest of the records, or None if they have none."""
    return find_record_files(input_patterns, split)[0].manifest


def _tokenizer_of(input_patterns, manifest) -> Tokenizer | None:
    """Returns the tokenizer that the folder of records carries."""
    if manifest is None:
        return None
    first = find_record_files(input_patterns)[0].path
    return load_tokenizer(os.path.dirname(os.fspath(first)))


def _identity(input_patterns) -> str:
    """Returns a hash that tells data sets apart, wherever they lie."""
    files = find_record_files(input_patterns)
    described = [
        file.manifest or os.path.basename(os.fspath(file.path))
        for file in files
    ]
    text = json.dumps(described, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
