"""What a pretraining run says of itself when it begins and when it ends."""

from __future__ import annotations

import os
from collections.abc import Mapping

import tensorflow as tf

from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.tasks.pretrain_config import PretrainConfig
from albert_tf.tasks.pretraining_records import PretrainingRecords
from albert_tf.training.loop import TrainingResult

# Metric -> the baseline that it stands beside, and the word for that.
_BASELINES = {
    "mlm_accuracy": ("mlm_unigram_accuracy", "most frequent token"),
    "sop_accuracy": ("sop_chance", "chance"),
}


def start_summary(
    config: PretrainConfig,
    records: PretrainingRecords,
    model: AlbertPretrainer,
    strategy: tf.distribute.Strategy,
    resumes: bool,
) -> str:
    """Returns lines on what is trained on what, where and how.

    Args:
      config: the settings.
      records: what it is trained on.
      model: what is trained.
      strategy: where.
      resumes: whether the run's folder holds the run already.
    """
    sizes = config.model
    layers = f"{sizes.num_hidden_layers} layers"
    if sizes.sharing != "all":
        layers += f" that share {sizes.sharing}"
    elif sizes.num_hidden_groups > 1:
        layers += f" in {sizes.num_hidden_groups} groups"
    training, replicas = config.training, strategy.num_replicas_in_sync
    # Such as /job:localhost/replica:0/task:0/device:GPU:0.
    device = strategy.extended.worker_devices[0].split("device:")[-1]
    micro_batches = training.gradient_accumulation_steps
    batch = f"{config.train_batch_size:,} examples"
    if replicas > 1:
        batch += f" on {replicas} replicas"
    if micro_batches > 1:
        batch += f" in {micro_batches} micro-batches"
    compiled = " with XLA" if training.jit_compile else ""
    rows = {
        "model": f"{model.count_params():,} parameters with heads; {layers}, "
        f"H {sizes.hidden_size}, E {sizes.embedding_size}, "
        f"vocabulary {sizes.vocab_size:,}",
        "records": _describe_records(records),
        "batch": batch,
        "training": f"{training.total_steps:,} steps of {config.optimizer}, "
        f"{config.schedule} schedule, highest rate "
        f"{config.resolved_learning_rate:.3g} after "
        f"{config.resolved_warmup_steps:,} steps",
        "computes": f"{config.precision} on {replicas} x {device.split(':')[0]}"
        f"{compiled}",
        "writes": f"{os.fspath(config.output_dir)}, "
        + ("which holds this run already" if resumes else "a new run"),
    }
    return "\n".join(f"{name:9} {text}" for name, text in rows.items())


def _describe_records(records: PretrainingRecords) -> str:
    text = f"{records.max_seq_length} tokens, "
    text += f"{records.max_predictions_per_seq} predictions at most"
    if records.manifest is None:
        return f"{text}; no manifest, so no baselines and no held-out split"
    splits = records.manifest["splits"]
    train = splits["train"]
    text = f"{train['counts']['instances']:,} of {text}; "
    text += f"{train['masking_rate']:.1%} of tokens masked, "
    text += f"{train['padding_fraction']:.1%} padding; "
    if "heldout" not in splits:
        return f"{text}none held out"
    return f"{text}{splits['heldout']['counts']['instances']:,} held out"


def end_summary(
    result: TrainingResult, seconds: float, baselines: Mapping[str, float]
) -> str:
    """Returns lines on what was done, and the scores beside their baselines.

    Args:
      result: of `pretrain`.
      seconds: what it took.
      baselines: what `evaluate_pretraining.baselines` returns.
    """
    done = f"{result.steps:,} steps done, {seconds / 60:.1f} minutes this time"
    if "tokens_per_second" in result.metrics:
        done += f", {result.metrics['tokens_per_second']:,.0f} tokens/s"
    if "matmul_share" in result.metrics:
        done += f" ({result.metrics['matmul_share']:.0%} of matmul peak)"
    scores = []
    for name, value in result.evaluation.items():
        scores.append(f"{name} {value:.4f}")
        key, word = _BASELINES.get(name, ("", ""))
        if key in baselines:
            scores[-1] += f" ({word}: {baselines[key]:.4f})"
    if scores:
        done += f"\nheld out: {', '.join(scores)}"
    return done
