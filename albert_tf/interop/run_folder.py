"""Folders of training runs."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
from collections.abc import Collection, Mapping
from typing import Any, Literal, TypedDict

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.input_files import read_json
from albert_tf.interop.checkpoint import (
    Checkpoint,
    OpenOptions,
    folder_vocabulary,
)
from albert_tf.interop.growing import extend_positions
from albert_tf.interop.keras_hub import is_preset
from albert_tf.interop.matching import match_tensors
from albert_tf.interop.names import OURS
from albert_tf.schema import check_type, typed

FORMAT = "training run of albert_tf"
CHECKPOINTS = "checkpoints"
STEP = re.compile(r"step-(\d+)")  # Name of a checkpoint.
# Written by fine-tuning: a run's best weights, their task, and the summary of
# several runs.
MODEL_FOLDER = "model"
TASK_FILE = "task.json"
RUNS_FILE = "runs.json"
_CONFIG = "config.json"
RECORD = "run.json"
# Prefixes of the model's variables and, if any, of their moving averages.
_MODEL = "model/"
_AVERAGE = "average/"
# Files of a model that a folder has itself.
_WEIGHTS = ("*.safetensors", "*.bin", "*.h5", "*.index", "saved_model.pb")


class _PhaseExtras(TypedDict, total=False):
    train_batch_size: int
    trained_positions: int
    num_hidden_layers: int


class _Phase(_PhaseExtras):
    steps: int


class _Settings(TypedDict, total=False):
    """The settings that are read from a run, not only compared."""

    model: Mapping[str, Any]
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"]
    num_train_steps: int
    train_batch_size: int
    schedule: str
    decay_steps: int
    objective: str
    objective_settings: Mapping[str, Any]
    phases: list[_Phase]


class _RecordExtras(TypedDict, total=False):
    files: list[str]


class _Record(_RecordExtras):
    """The entries of `run.json` that are read; it has others."""

    settings: _Settings


def read_record(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads the `run.json` of a local or remote folder."""
    path = os.path.join(os.fspath(folder), RECORD)
    record = read_json(path)
    check_type(record, _Record, path)
    return record


def is_run_folder(folder: str | os.PathLike[str]) -> bool:
    """Returns whether a folder belongs to a training run."""
    folder = pathlib.Path(folder)
    return (folder / RECORD).exists() and (folder / _CONFIG).exists()


def fine_tuned_model(folder: str | os.PathLike[str]) -> pathlib.Path | None:
    """Returns the folder with a fine-tuning run's best weights, or None.

    They are rarely those of the newest checkpoint. `folder` may be that of a
    model, of a run, or of several runs, in which case the best run is used.
    Presets of KerasHub, whose `task.json` is another file, are none of these.
    """
    folder = pathlib.Path(folder)
    runs = folder / RUNS_FILE
    if runs.exists():
        best = typed(read_json(runs), "best", str, "", str(runs))
        if not best or pathlib.Path(best).name != best:
            raise InputError(
                f"{runs}: best={best!r} must name a folder beside it"
            )
        folder = folder / best
    models = [folder]
    has_weights = folder.is_dir() and any(
        any(folder.glob(pattern)) for pattern in _WEIGHTS
    )
    if (folder / RECORD).exists() or not has_weights:
        models.append(folder / MODEL_FOLDER)
    for model in models:
        if (model / TASK_FILE).exists() and not is_preset(model):
            return model
    return None


def open_run_checkpoint(path: pathlib.Path, options: OpenOptions) -> Checkpoint:
    """Opens a checkpoint of a run, by default the newest.

    Moving averages of the weights are preferred to the weights, as in the run's
    evaluations. Position embeddings that the run has not trained, which are
    random, are replaced by copies of the trained ones. `path` is the run's
    folder, or a checkpoint's path without ".index".
    """
    # Imported here, as models of other backends work without TensorFlow.
    from albert_tf.interop.tf_checkpoint import open_tf_checkpoint

    folder, prefix = path, path
    if path.is_dir():
        indices = (folder / CHECKPOINTS).glob("step-*.index")
        found = [x.stem for x in indices if STEP.fullmatch(x.stem)]
        if not found:
            raise InputError(f"{folder} is a run that has no checkpoint yet")
        prefix = folder / CHECKPOINTS / max(found, key=_step_of)
    else:
        folder = path.parent.parent
    config = AlbertConfig.from_json(folder / _CONFIG)
    settings = read_record(folder)["settings"]
    config = config_of_checkpoint(config, settings, prefix.name)
    config = config.replace(**options.overrides)
    names = ("objective", "objective_settings")
    objective = {name: settings[name] for name in names if name in settings}
    if objective.get("objective", "mlm") == "mlm":
        objective = {}  # Its heads are those of every ALBERT.
    file = open_tf_checkpoint(prefix, by_object=True)
    checkpoint = dataclasses.replace(
        match_tensors(
            OURS,
            file.select(_short_names(file.shapes)),
            config,
            objective_heads=bool(objective),
        ),
        objective=objective,
        vocabulary=folder_vocabulary(folder, "huggingface"),
        format=FORMAT,
    )
    return extend_positions(checkpoint, config.max_position_embeddings)


def config_of_checkpoint(
    config: AlbertConfig, settings: Mapping[str, Any], checkpoint: str
) -> AlbertConfig:
    """Returns the config of a checkpoint: its depth and `trained_positions`.

    Each phase in the settings of a run has `steps`, the `trained_positions` at
    its end and, unless it is that of `model`, its `num_hidden_layers`.
    `checkpoint` is a name such as "step-00000100".
    """
    step = _step_of(checkpoint)
    first_step, phases = 0, settings.get("phases", ())
    trained, depth = config.trained_positions, config.num_hidden_layers
    for phase in phases:
        if first_step == 0 or first_step < step:
            trained = phase.get("trained_positions", trained)
            if any("num_hidden_layers" in x for x in phases):
                depth = settings["model"]["num_hidden_layers"]
                depth = phase.get("num_hidden_layers", depth)
        first_step += phase["steps"]
    return config.replace(trained_positions=trained, num_hidden_layers=depth)


def _step_of(checkpoint: str) -> int:
    match = STEP.fullmatch(checkpoint)
    if not match:
        raise InputError(
            f"checkpoint {checkpoint!r} of a run must be named step-NUMBER"
        )
    return int(match[1])


def _short_names(names: Collection[str]) -> dict[str, str]:
    """Maps short names, for the model the variables' paths, to full names."""
    short = {}
    for name in names:
        path = name.removeprefix(_MODEL)
        if name.startswith(_AVERAGE):
            short[name.removeprefix(_AVERAGE)] = name
        elif _AVERAGE + path in names:
            short[name] = name  # The weights whose averages are loaded.
        else:
            short[path] = name
    return short
