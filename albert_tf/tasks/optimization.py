"""Optimizer and learning rates of a pretraining run, from its settings."""

from __future__ import annotations

import dataclasses
import os

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.models.base import AlbertModel
from albert_tf.tasks.layerwise_rates import layerwise_rates
from albert_tf.tasks.pretrain_config import PretrainConfig
from albert_tf.training.checkpoint_files import FOLDER, list_checkpoints
from albert_tf.training.optimizers import AdamW, Lamb
from albert_tf.training.run_folder import FILE, read_settings
from albert_tf.training.schedules import (
    CosineDecay,
    LinearDecay,
    PolynomialDecay,
    Schedule,
    WarmupStableDecay,
)
from albert_tf.training.variables import by_name


def make_optimizer(config: PretrainConfig, model: AlbertModel) -> AdamW:
    """Returns the optimizer of a run, not built yet."""
    return named_optimizer(
        config.optimizer,
        model,
        weight_decay=config.weight_decay,
        layerwise_lr_decay=config.layerwise_lr_decay,
    )


def named_optimizer(
    name: str,
    model: AlbertModel,
    *,
    weight_decay: float,
    layerwise_lr_decay: float,
) -> AdamW:
    """Returns an optimizer, not built yet.

    Args:
      name: one of `OPTIMIZERS`.
      model: the model that it is for.
      weight_decay: of all weights but biases and LayerNorm.
      layerwise_lr_decay: see `layerwise_rates`; 1 for one rate.
    """
    multipliers = None
    if layerwise_lr_decay != 1.0:
        multipliers = layerwise_rates(
            model.config,
            by_name(model.trainable_variables),
            layerwise_lr_decay,
        )
    return {"lamb": Lamb, "adamw": AdamW}[name](
        weight_decay=weight_decay, rate_multipliers=multipliers
    )


def make_schedule(config: PretrainConfig) -> Schedule:
    """Returns the learning rates of a run.

    Raises:
      InputError: warm-up and decay do not fit into the steps of the run.
    """
    return named_schedule(
        config.schedule,
        config.resolved_learning_rate,
        config.training.total_steps,
        config.resolved_warmup_steps,
        start_warmup_step=config.start_warmup_step,
        poly_power=config.poly_power,
        final_lr_fraction=config.final_lr_fraction,
        decay_steps=config.decay_steps,
    )


def named_schedule(
    name: str,
    highest_rate: float,
    total_steps: int,
    warmup_steps: int,
    *,
    start_warmup_step: int = 0,
    poly_power: float = 1.0,
    final_lr_fraction: float = 0.0,
    decay_steps: int = 0,
) -> Schedule:
    """Returns learning rates.

    Args:
      name: one of `SCHEDULES`; the others say what they go with.
      highest_rate: the rate at the end of the warm-up.
      total_steps: steps of the run.
      warmup_steps: steps in which the rate grows.
      start_warmup_step: polynomial; step at which it begins to grow.
      poly_power: polynomial; power of the decay.
      final_lr_fraction: cosine; what is left at the end.
      decay_steps: warmup_stable_decay; the last steps, in which it falls.

    Raises:
      InputError: warm-up and decay do not fit into the steps of the run.
    """
    common = (highest_rate, total_steps, warmup_steps)
    if name == "linear":
        return LinearDecay(*common)
    if name == "cosine":
        return CosineDecay(*common, final_lr_fraction)
    if name == "warmup_stable_decay":
        return WarmupStableDecay(*common, decay_steps)
    return PolynomialDecay(*common, poly_power, start_warmup_step)


def describe_scaling(config: PretrainConfig) -> str:
    """Says in a line what `scale_lr_with_batch` made of the settings."""
    total_steps = config.training.total_steps
    return (
        f"batch {config.train_batch_size}, scaled from "
        f"{config.reference_batch_size}: learning rate "
        f"{config.resolved_learning_rate:.6g}, warm-up "
        f"{config.resolved_warmup_steps} of {total_steps} steps"
    )


def check_rates_so_far(config: PretrainConfig) -> None:
    """Checks that a run that is resumed has had the right learning rates.

    Only a run with the schedule "warmup_stable_decay" may be given another
    `total_steps` and `decay_steps`: then every update that its newest
    checkpoint has seen must have had the rate that it has in the new schedule.

    Raises:
      InputError: one had another rate, or more steps are done than asked for.
    """
    folder = os.fspath(config.output_dir)
    if "total_steps" not in config.free_on_resume:
        return
    if not tf.io.gfile.exists(os.path.join(folder, FILE)):
        return
    old = config.default_settings() | read_settings(folder)
    if old["schedule"] != config.schedule:
        return  # Refused like any other setting that differs.
    before = dataclasses.replace(
        config,
        decay_steps=old["decay_steps"],
        training=dataclasses.replace(
            config.training, total_steps=old["total_steps"]
        ),
    )
    step = max(list_checkpoints(os.path.join(folder, FOLDER)), default=0)
    total_steps = config.training.total_steps
    if step > total_steps:
        raise InputError(
            f"{folder}: {step} steps are done, more than total_steps="
            f"{total_steps}; remove the checkpoints behind that step to go back"
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
            f"learning rate {old_rates[first]:.6g}, but has "
            f"{new_rates[first]:.6g} with total_steps={total_steps} and "
            f"decay_steps={config.decay_steps}; let the decay begin at the "
            f"newest checkpoint or later, or remove the checkpoints behind "
            f"step {first}"
        )
