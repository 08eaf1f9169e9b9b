"""The folder of a run, with a record of its settings in `run.json`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Mapping
from importlib import metadata
from typing import Any

import keras
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import PARTIAL, read_text, write_atomically
from albert_tf.training.config import RENAMED_SETTINGS

FILE = "run.json"


def prepare_run_folder(
    path: str | os.PathLike[str],
    settings: Mapping[str, Any],
    *,
    may_change: Collection[str] = (),
    defaults: Mapping[str, Any] | None = None,
    files: Mapping[str, str | bytes] | None = None,
    writes: bool = True,
) -> bool:
    """Claims a folder for a run before its first step.

    A new or empty folder gets `files` and then `run.json`: the settings, the
    time and the versions. A folder that holds the same run is resumed; changed
    settings of `may_change` are recorded.

    Args:
      path: the folder; created if necessary.
      settings: all settings that decide the results of the run, as JSON values.
      may_change: names of settings that may differ on resume.
      defaults: values of settings that an older run may not have recorded.
      files: further files to write: name -> content.
      writes: whether this process writes; in a run of several workers, only the
        chief does (see `is_chief`).

    Returns:
      Whether the folder holds a run to resume.

    Raises:
      InputError: the folder holds another run or something else.
    """
    path = os.fspath(path)
    files = dict(files or {})
    settings, defaults = json.loads(json.dumps([settings, defaults or {}]))
    run_file = os.path.join(path, FILE)
    if tf.io.gfile.exists(run_file):
        _check_same_run(path, settings, may_change, defaults)
        if writes and _read_settings(path) != settings:
            record = json.loads(read_text(run_file))
            _write_record(run_file, record | {"settings": settings})
        return True
    if not writes:
        return False
    _check_empty(path, files)
    tf.io.gfile.makedirs(path)
    for name, content in files.items():
        write_atomically(os.path.join(path, name), content)
    # Written last: if it exists, the folder is complete.
    _write_record(
        run_file,
        {
            "settings": settings,
            "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "versions": {
                "albert_tf": metadata.version("albert-tf"),
                "tensorflow": tf.__version__,
                "keras": keras.__version__,
            },
        },
    )
    return False


def read_settings(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads the settings of the run in a folder.

    Raises:
      InputError: the folder holds no run.
    """
    path = os.fspath(path)
    if not tf.io.gfile.exists(os.path.join(path, FILE)):
        raise InputError(f"{path} is not the folder of a run: no {FILE} there")
    return _read_settings(path)


def load_run_config(path: str | os.PathLike[str]) -> AlbertConfig:
    """Returns the architecture of the run in a folder.

    Raises:
      InputError: the folder holds no run.
    """
    return AlbertConfig.from_dict(
        read_settings(path)["model"], source=f"run {os.fspath(path)}"
    )


def _read_settings(path: str) -> dict[str, Any]:
    try:
        settings = json.loads(read_text(os.path.join(path, FILE)))["settings"]
        return {
            RENAMED_SETTINGS.get(name, name): value
            for name, value in settings.items()
        }
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{os.path.join(path, FILE)} is not the record of a run ({error}); "
            "use another folder"
        ) from error


def _write_record(run_file: str, record: Mapping[str, Any]) -> None:
    write_atomically(run_file, json.dumps(record, indent=2) + "\n")


def _check_same_run(path, settings, may_change, defaults) -> None:
    old = defaults | _read_settings(path)
    settings = defaults | settings
    for name in sorted(old.keys() | settings.keys()):
        if name not in may_change and old.get(name) != settings.get(name):
            raise InputError(
                f"{path} holds a run with {name}={json.dumps(old.get(name))}, "
                f"not {json.dumps(settings.get(name))}; use that value to "
                "resume it, or another folder"
            )


def _check_empty(path: str, files: Collection[str]) -> None:
    if not tf.io.gfile.exists(path):
        return
    if not tf.io.gfile.isdir(path):
        raise InputError(f"{path} is not a folder; choose another")
    # A run killed at its start has left some of these and no record.
    ours = {*files, FILE}
    for name in sorted(tf.io.gfile.listdir(path)):
        if name.rstrip("/").removesuffix(PARTIAL) not in ours:
            raise InputError(
                f"{path} is not the folder of a run: it contains {name}; use a "
                "new or empty folder"
            )
