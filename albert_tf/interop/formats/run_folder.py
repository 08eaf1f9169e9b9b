"""The folder of a training run of ours."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Collection
from typing import Any

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.interop.accounting import account_for
from albert_tf.interop.checkpoint import Checkpoint, HeadSettings
from albert_tf.interop.config_files import read_json
from albert_tf.interop.files.tensor_file import TensorFile
from albert_tf.interop.files.tf_checkpoint import open_tf_checkpoint
from albert_tf.interop.names import OURS
from albert_tf.interop.vocabularies import folder_vocabulary

CHECKPOINTS = "checkpoints"
# What fine-tuning leaves: in the folder of a run the model, in the model's what
# it is for, and beside several runs which of them is the best.
MODEL_FOLDER = "model"
TASK_FILE = "task.json"
RUNS_FILE = "runs.json"
_CONFIG = "config.json"
# Prefixes of the model's variables, and of their averages if a run has these;
# the rest is training's.
_MODEL = "model/"
_AVERAGE = "average/"


def is_run_folder(folder: str | os.PathLike[str]) -> bool:
    """Whether a folder is a training run's."""
    folder = pathlib.Path(folder)
    return (folder / "run.json").exists() and (folder / _CONFIG).exists()


def fine_tuned_model(folder: str | os.PathLike[str]) -> pathlib.Path | None:
    """Returns where the best weights of a fine-tuning run are, if it is one.

    The newest checkpoint of such a run is seldom its best.

    Args:
      folder: the model's own, or that of the run; of several runs, the best
        one's is taken.

    Raises:
      InputError: the record of several runs cannot be read.
    """
    folder = pathlib.Path(folder)
    runs = folder / RUNS_FILE
    if runs.exists():
        folder = folder / read_json(runs)["best"]
    for model in (folder, folder / MODEL_FOLDER):
        if (model / TASK_FILE).exists():
            return model
    return None


def open_run(
    path: str | os.PathLike[str], *, overrides: dict[str, Any] | None = None
) -> Checkpoint:
    """Opens the newest checkpoint of a run, or the one that is given.

    Where there are averages of the weights they are read, as the run's
    evaluations are of them.

    Args:
      path: the run's folder, or a checkpoint's path without ".index".
      overrides: fields of the config to replace.

    Raises:
      InputError: see `account_for`; or there is no checkpoint yet.
    """
    path = pathlib.Path(path)
    folder, prefix = path, path
    if path.is_dir():
        found = sorted((folder / CHECKPOINTS).glob("step-*.index"))
        if not found:
            raise InputError(f"{folder} is a run without a checkpoint yet")
        prefix = found[-1].with_suffix("")
    else:
        folder = path.parent.parent
    config = AlbertConfig.from_json(folder / _CONFIG).replace(**overrides or {})
    opened = open_tf_checkpoint(prefix, by_object=True)
    names = _short_names(opened.shapes)
    file = TensorFile(
        {short: opened.shapes[name] for short, name in names.items()},
        lambda short: opened.read(names[short]),
        str(prefix),
    )
    account = account_for(OURS, file, config)
    vocabulary = folder_vocabulary(folder, "huggingface")
    return Checkpoint(
        config=account.config,
        parts=account.parts,
        arrays=account.arrays,
        head=HeadSettings(account.num_labels),
        vocabulary=vocabulary,
        source=str(prefix),
        format="training run of albert_tf",
        left=account.left,
    )


def _short_names(names: Collection[str]) -> dict[str, str]:
    """Returns short name -> name; the model's variables go by their paths."""
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
