"""Folders of this library's training runs."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Collection, Mapping
from typing import Any

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.input_files import read_json
from albert_tf.interop.checkpoint import Checkpoint, folder_vocabulary
from albert_tf.interop.file_types import TensorFile
from albert_tf.interop.matching import match_tensors
from albert_tf.interop.names import OURS
from albert_tf.schema import typed

CHECKPOINTS = "checkpoints"
# Written by fine-tuning: the best weights of a run, their task, and the record
# of several runs.
MODEL_FOLDER = "model"
TASK_FILE = "task.json"
RUNS_FILE = "runs.json"
_CONFIG = "config.json"
_RECORD = "run.json"
# Prefixes of the model's variables, and of their averages if a run has these.
_MODEL = "model/"
_AVERAGE = "average/"


def is_run_folder(folder: str | os.PathLike[str]) -> bool:
    """Returns whether a folder is that of a training run."""
    folder = pathlib.Path(folder)
    return (folder / _RECORD).exists() and (folder / _CONFIG).exists()


def fine_tuned_model(folder: str | os.PathLike[str]) -> pathlib.Path | None:
    """Returns the folder of a fine-tuning run's best weights, if it is one.

    The newest checkpoint of such a run is seldom its best.

    Args:
      folder: that of the model, of the run, or of several runs, of which
        the best is taken.

    Raises:
      InputError: the record of several runs cannot be read.
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
    for model in (folder, folder / MODEL_FOLDER):
        if (model / TASK_FILE).exists():
            return model
    return None


def open_run(
    path: str | os.PathLike[str], *, overrides: dict[str, Any] | None = None
) -> Checkpoint:
    """Opens a checkpoint of a run, by default the newest.

    Averages of the weights are loaded if there are any, since the run's
    evaluations use them. `path` is the run's folder, or a checkpoint's path
    without ".index"; for `overrides`, see `open_checkpoint`.
    """
    # Not above: under other backends, models work without TensorFlow.
    from albert_tf.interop.tf_checkpoint import open_tf_checkpoint

    path = pathlib.Path(path)
    folder, prefix = path, path
    if path.is_dir():
        found = sorted((folder / CHECKPOINTS).glob("step-*.index"))
        if not found:
            raise InputError(f"{folder} is a run that has no checkpoint yet")
        prefix = found[-1].with_suffix("")
    else:
        folder = path.parent.parent
    config = AlbertConfig.from_json(folder / _CONFIG)
    record = read_json(folder / _RECORD)
    config = positions_trained_so_far(
        config,
        typed(record, "settings", dict, {}, str(folder / _RECORD)),
        prefix.name,
    ).replace(**overrides or {})
    opened = open_tf_checkpoint(prefix, by_object=True)
    names = _short_names(opened.shapes)
    file = TensorFile(
        {short: opened.shapes[name] for short, name in names.items()},
        lambda short: opened.read(names[short]),
        str(prefix),
    )
    return dataclasses.replace(
        match_tensors(OURS, file, config),
        vocabulary=folder_vocabulary(folder, "huggingface"),
        format="training run of albert_tf",
    )


def positions_trained_so_far(
    config: AlbertConfig, settings: Mapping[str, Any], checkpoint: str
) -> AlbertConfig:
    """Returns a run's config with the positions that a checkpoint has trained.

    Args:
      config: that of the whole run.
      settings: those of its record. Of its phases, each has `steps`, and
        `trained_positions` when it ends.
      checkpoint: such as "step-00000100".
    """
    step = int(checkpoint.rpartition("-")[2])
    trained, first_step = config.trained_positions, 0
    for phase in settings.get("phases", ()):
        if first_step == 0 or first_step < step:
            trained = phase["trained_positions"]
        first_step += phase["steps"]
    return config.replace(trained_positions=trained)


def _short_names(names: Collection[str]) -> dict[str, str]:
    """Returns short name -> name; those of the model's variables are paths."""
    short = {}
    for name in names:
        path = name.removeprefix(_MODEL)
        if name.startswith(_AVERAGE):
            short[name.removeprefix(_AVERAGE)] = name
        elif _AVERAGE + path in names:
            short[name] = name  # The last weights, beside their averages.
        else:
            short[path] = name
    return short
