"""Learning rates of a pretraining run."""

from __future__ import annotations

import dataclasses
import os

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.pretraining.config import PretrainConfig
from albert_tf.training.checkpoint_files import FOLDER, list_checkpoints
from albert_tf.training.run_folder import FILE, read_settings
from albert_tf.training.schedules import SCHEDULES, Schedule


def make_schedule(config: PretrainConfig) -> Schedule:
    """Returns the learning rates of a run.

    Raises:
      InputError: warm-up and decay do not fit into the steps of the run.
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
    """Says in a line what `scale_lr_with_batch` made of the settings."""
    num_train_steps = config.num_train_steps
    return (
        f"batch {config.train_batch_size}, scaled from "
        f"{config.reference_batch_size}: learning rate "
        f"{config.resolved_learning_rate:.6g}, warm-up "
        f"{config.resolved_warmup_steps} of {num_train_steps} steps"
    )


def check_rates_so_far(config: PretrainConfig) -> None:
    """Checks that a run that is resumed has had the right learning rates.

    Only a run with the schedule "warmup_stable_decay" may be given another
    `num_train_steps` and `decay_steps`: then every update that its newest
    checkpoint has seen must have had the rate that it has in the new schedule.

    Raises:
      InputError: one had another rate, or more steps are done than asked for.
    """
    folder = os.fspath(config.output)
    if "num_train_steps" not in config.free_on_resume:
        return
    if not tf.io.gfile.exists(os.path.join(folder, FILE)):
        return
    old = config.default_settings() | read_settings(folder)
    if old["schedule"] != config.schedule:
        return  # Refused like any other setting that differs.
    before = dataclasses.replace(
        config,
        phases=(),  # They have no rates of their own.
        decay_steps=old["decay_steps"],
        num_train_steps=old["num_train_steps"],
    )
    step = max(list_checkpoints(os.path.join(folder, FOLDER)), default=0)
    num_train_steps = config.num_train_steps
    if step > num_train_steps:
        raise InputError(
            f"{folder}: {step} steps are done, more than num_train_steps="
            f"{num_train_steps}; remove the checkpoints behind that step to go "
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
            f"learning rate {old_rates[first]:.6g}, but has "
            f"{new_rates[first]:.6g} with num_train_steps={num_train_steps} "
            f"and decay_steps={config.decay_steps}; let the decay begin at the "
            f"newest checkpoint or later, or remove the checkpoints behind "
            f"step {first}"
        )
