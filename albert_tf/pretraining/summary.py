"""Summaries printed at the start and the end of a pretraining run."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.data.record_order import describe_mixture
from albert_tf.data.records import PLATEAU, Records
from albert_tf.errors import counted
from albert_tf.models.base import AlbertModel
from albert_tf.objectives.registry import baselines_of, is_baseline
from albert_tf.pretraining.config import PretrainConfig, ResolvedPhase
from albert_tf.pretraining.phase_records import PhaseRecords
from albert_tf.training.result import TrainingResult
from albert_tf.training.schedules import describe_rate
from albert_tf.training.workers import input_context

_logger = logging.getLogger(__name__)


def start_summary(
    config: PretrainConfig,
    phases: Sequence[PhaseRecords],
    model: AlbertModel,
    strategy: tf.distribute.Strategy,
) -> dict[str, str]:
    """Describes the model, the records, the training and the devices.

    Returns heading -> text, as for `Run.train`.
    """
    sizes = config.architecture
    depths = list(dict.fromkeys(phase.depth for phase in phases))
    layers = counted(depths[-1], "layer")
    if len(depths) > 1:
        layers = f"{', then '.join(map(str, depths))} layers"
    if sizes.sharing != "all":
        layers += f" that share {sizes.sharing}"
    elif sizes.num_hidden_groups > 1:
        layers += f" in {sizes.num_hidden_groups} groups"
    replicas = strategy.num_replicas_in_sync
    # The name of a device is like /job:localhost/replica:0/task:0/device:GPU:0.
    device = strategy.extended.worker_devices[0].split("device:")[-1]
    compiled = " with XLA" if config.jit_compile else ""
    rows = {
        "model": f"{model.count_params():,} parameters with heads; {layers}, "
        f"H {sizes.hidden_size}, E {sizes.embedding_size}, "
        f"vocabulary {sizes.vocab_size:,}"
    }
    for number, phase in enumerate(phases, 1):
        suffix = f" {number}" if len(phases) > 1 else ""
        changes = phase.resolved.example_settings.items()
        rows[f"records{suffix}"] = _describe_records(phase.records) + "".join(
            f"; {name}={value}" for name, value in changes
        )
        if phase.records.corpora:
            rows[f"mixture{suffix}"] = describe_mixture(
                phase.records.corpora,
                phase.records.files["train"],
                phase.resolved.examples,
            )
        rows[f"batch{suffix}"] = _describe_batch(phase.resolved, replicas)
    hosts = input_context(strategy).num_input_pipelines
    if config.reading_groups % hosts:
        rows["reading"] = (
            f"each of {hosts} hosts reads all files; with --reading_groups="
            f"{hosts} each would read its own"
        )
    if config.objective != "mlm":
        changes = config.objective_settings.items()
        rows["objective"] = config.objective + "".join(
            f"; {name}={value}" for name, value in changes
        )
    rows |= {
        "training": f"{counted(config.num_train_steps, 'step')} of "
        f"{config.optimizer}, {config.schedule} schedule, "
        + describe_rate(
            config.resolved_learning_rate, config.resolved_warmup_steps
        ),
        "computes": f"{config.precision} on {replicas} x {device.split(':')[0]}"
        f"{compiled}",
    }
    if config.scale_lr_with_batch:
        rows["training"] += (
            f", scaled from a batch of {config.reference_batch_size:,}"
        )
    return rows


def _describe_batch(resolved: ResolvedPhase, replicas: int) -> str:
    config = resolved.config
    text = counted(config.train_batch_size, "example")
    if replicas > 1:
        text += f" on {replicas} replicas"
    if config.gradient_accumulation_steps > 1:
        text += f" in {config.gradient_accumulation_steps} micro-batches"
    if resolved.steps < config.num_train_steps:
        text += f", steps {resolved.first_step + 1:,} to {resolved.end:,}"
    return text


def _describe_records(records: Records) -> str:
    text = f"{records.max_seq_length} tokens, "
    text += f"{records.max_predictions_per_seq} predictions at most"
    files = records.files["train"]
    manifests = {id(x.manifest): x.manifest for x in files if x.manifest}
    if not all(x.manifest for x in files):
        return f"{text}; no manifest, so no baselines and no held-out split"
    text = f"{sum(file.num_records for file in files):,} of {text}; "
    splits = [manifest["splits"]["train"] for manifest in manifests.values()]
    counts = [split["counts"] for split in splits]
    instances = [each["instances"] for each in counts]
    if "sequences" in counts[0]:
        mean = sum(each["sequences"] for each in counts) / sum(instances)
        text += f"{mean:.2f} sequences each; "
    for name, meaning in (
        ("masking_rate", "of tokens masked, "),
        ("padding_fraction", "padding; "),
    ):
        rates = [split[name] for split in splits]
        text += f"{np.average(rates, weights=instances):.1%} {meaning}"
    heldout = sum(file.num_records for file in records.files.get("heldout", ()))
    return f"{text}{f'{heldout:,}' if heldout else 'none'} held out"


def warn_of_plateau(scores: Mapping[str, float]) -> None:
    """Warns of a run that ends before its model has learned from contexts.

    `scores` are those of the model, with `Records.baselines`.
    """
    unigram = scores.get("mlm_unigram_accuracy", 0.0)
    accuracy = scores.get("mlm_accuracy", math.inf)
    if accuracy < PLATEAU * unigram:
        _logger.warning(
            "%.1f %% of masked words are right, and %.1f %% with the most "
            "frequent token for all: the model knows little more than how "
            "frequent words are. Train longer; small models leave this plateau "
            "soonest with one layer, and grow from there with --phases or "
            "--init_from (docs/small_models.md)",
            100 * accuracy,
            100 * unigram,
        )


def end_summary(result: TrainingResult, seconds: float) -> str:
    """Describes the result of `pretrain`, with baselines beside the scores.

    `seconds` is the duration of the call.
    """
    steps = counted(result.steps, "step")
    text = f"{steps} done, {seconds / 60:.1f} minutes this time"
    if "tokens_per_second" in result.metrics:
        text += f", {result.metrics['tokens_per_second']:,.0f} tokens/s"
    if "gflops_per_second" in result.metrics:
        text += f" ({result.metrics['gflops_per_second']:,.1f} GFLOP/s)"
    scores = []
    for name, value in result.evaluation.items():
        if is_baseline(name):
            continue
        scores.append(f"{name} {value:.4f}")
        beside = baselines_of(name, result.evaluation).items()
        if beside:
            labelled = (f"{label}: {score:.4f}" for label, score in beside)
            scores[-1] += f" ({', '.join(labelled)})"
    if scores:
        text += f"\nheld out: {', '.join(scores)}"
    return text
