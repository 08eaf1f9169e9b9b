"""What may change when a pretraining run is resumed with more steps."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.pretraining.config import PretrainConfig
from albert_tf.pretraining.schedule import make_schedule
from albert_tf.training.checkpoint_files import read_time, run_checkpoints
from albert_tf.training.run_folder import FILE, read_settings
from albert_tf.training.time_budget import TimeBudget


def check_past(config: PretrainConfig, settings: Mapping[str, Any]) -> None:
    """Checks that the past updates of a resumed run were those of its settings.

    With the schedule "warmup_stable_decay", `num_train_steps`, `decay_steps`
    and the lengths of phases may change when a run is resumed, but neither the
    learning rates nor the phases of the updates up to the newest checkpoint.
    `settings` are those for `run.json`.
    """
    folder = os.fspath(config.output)
    if "num_train_steps" not in config.free_on_resume:
        return  # `open_run_folder` compares them if the run is resumed.
    if not tf.io.gfile.exists(os.path.join(folder, FILE)):
        return
    old = config.default_settings() | read_settings(folder)
    if old["schedule"] != config.schedule:
        return  # `open_run_folder` reports the difference.
    _check_rates(folder, config, old)
    if run_checkpoints(folder):
        _check_phases(folder, old["phases"], settings.get("phases", ()))


def _check_rates(
    folder: str, config: PretrainConfig, old: Mapping[str, Any]
) -> None:
    lengths = ("num_train_steps", "decay_steps")
    if any(old[name] != getattr(config, name) for name in lengths):
        _check_time_is_left(folder)
    before = dataclasses.replace(
        config,
        phases=(),  # They do not affect learning rates.
        decay_steps=old["decay_steps"],
        num_train_steps=old["num_train_steps"],
    )
    step = newest_step(folder)
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


def _check_time_is_left(folder: str) -> None:
    """Checks that no time budget has begun to end a run."""
    newest = run_checkpoints(folder)
    state = read_time(newest[max(newest)]) if newest else ()
    if TimeBudget.is_decided(state):
        _, first_step, steps = map(int, state)
        raise InputError(
            f"{folder}: max_minutes has begun a decay of the learning rate at "
            f"step {first_step}, which ends the run at step "
            f"{first_step + steps}; remove the checkpoints from step "
            f"{first_step} on to change num_train_steps or decay_steps"
        )


def _check_phases(
    folder: str,
    old: Sequence[Mapping[str, Any]],
    new: Sequence[Mapping[str, Any]],
) -> None:
    if len(old) != len(new):
        raise InputError(
            f"{folder} holds a run of {len(old) or 'no'} phases, not "
            f"{len(new) or 'none'}; only their lengths may change"
        )
    for number, (before, after) in enumerate(zip(old, new, strict=True)):
        for name in sorted((after.keys() | before.keys()) - {"steps"}):
            values = before.get(name), after.get(name)
            if values[0] != values[1]:
                raise InputError(
                    f"{folder} holds a run with phases[{number}]: {name}="
                    f"{json.dumps(values[0])}, not {json.dumps(values[1])}; "
                    "only the lengths of phases may change"
                )
    done = newest_step(folder)
    ends = [
        list(itertools.accumulate(phase["steps"] for phase in phases))[:-1]
        for phases in (old, new)
    ]
    for number, (before, after) in enumerate(zip(*ends, strict=True)):
        if min(before, done) != min(after, done):
            raise InputError(
                f"{folder}: phases[{number}] ended after step {before}, but "
                f"would end after step {after}, and {done} steps are done; "
                "give the lengths of past phases in steps, as they were, or "
                f"remove the checkpoints after step {min(before, after)}"
            )


def newest_step(folder: str) -> int:
    """Returns the step of the newest checkpoint of a run; 0 without one."""
    return max(run_checkpoints(folder), default=0)
