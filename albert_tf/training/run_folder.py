"""The folder of a run: one run, its settings written down first."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Mapping
from importlib import metadata
from typing import Any

import keras
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training.files import PARTIAL, read_text, write_atomically

FILE = "run.json"


def prepare_run_folder(
    path: str | os.PathLike,
    settings: Mapping[str, Any],
    *,
    may_change: Collection[str] = (),
    defaults: Mapping[str, Any] | None = None,
    files: Mapping[str, str | bytes] | None = None,
    resume: bool = True,
    writes: bool = True,
) -> bool:
    """Claims a folder for a run before its first step.

    A new or empty folder gets `files` and then `run.json`: the settings, the
    time and the versions. A folder that holds the same run is taken to resume
    it; where settings of `may_change` are new, they are written down.

    Args:
      path: the folder; created where there is none.
      settings: all that decides the numbers of the run, as JSON values.
      may_change: names of settings that may differ on resume.
      defaults: settings that count where the folder's run has none of that
        name, for it was begun before they existed.
      files: further files to write: name -> content.
      resume: whether a folder that holds this run already is accepted.
      writes: whether this process writes; in a run of several workers, the
        chief only (`workers.is_chief`).

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
        _check_same_run(path, settings, may_change, defaults, resume)
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
    # Last: where it is, the folder is complete.
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


def read_settings(path: str | os.PathLike) -> dict[str, Any]:
    """Reads the settings of the run in a folder.

    Raises:
      InputError: the folder holds no run.
    """
    path = os.fspath(path)
    if not tf.io.gfile.exists(os.path.join(path, FILE)):
        raise InputError(f"{path} holds no run: it has no {FILE}")
    return _read_settings(path)


def _read_settings(path: str) -> dict[str, Any]:
    try:
        return json.loads(read_text(os.path.join(path, FILE)))["settings"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{os.path.join(path, FILE)} is not the record of a run ({error}); "
            "choose another folder"
        ) from error


def _write_record(run_file: str, record: Mapping[str, Any]) -> None:
    write_atomically(run_file, json.dumps(record, indent=2) + "\n")


def _check_same_run(path, settings, may_change, defaults, resume) -> None:
    if not resume:
        raise InputError(
            f"{path} already holds a run; choose another folder or resume it"
        )
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
    # A start that was killed has left some of these and no record.
    ours = {*files, FILE}
    for name in sorted(tf.io.gfile.listdir(path)):
        if name.rstrip("/").removesuffix(PARTIAL) not in ours:
            raise InputError(
                f"{path} is no folder of a run, but holds {name}; choose a new "
                "or empty folder"
            )
