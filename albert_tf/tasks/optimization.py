"""Optimizer and learning rates of a pretraining run, from its settings."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
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


def make_optimizer(config: PretrainConfig, model: Any) -> AdamW:
    """Returns the optimizer of a run, not built yet.

    Args:
      config: the settings.
      model: the Keras model that it is for.
    """
    multipliers = None
    if config.layerwise_lr_decay != 1.0:
        multipliers = layerwise_rates(
            config.model,
            by_name(model.trainable_variables),
            config.layerwise_lr_decay,
        )
    return {"lamb": Lamb, "adamw": AdamW}[config.optimizer](
        weight_decay=config.weight_decay, rate_multipliers=multipliers
    )


def make_schedule(config: PretrainConfig) -> Schedule:
    """Returns the learning rates of a run.

    Raises:
      InputError: warm-up and decay do not fit into the steps of the run.
    """
    common = (
        config.resolved_learning_rate,
        config.training.total_steps,
        config.resolved_warmup_steps,
    )
    if config.schedule == "linear":
        return LinearDecay(*common)
    if config.schedule == "cosine":
        return CosineDecay(*common, config.final_lr_fraction)
    if config.schedule == "warmup_stable_decay":
        return WarmupStableDecay(*common, config.decay_steps)
    return PolynomialDecay(*common, config.poly_power, config.start_warmup_step)


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
