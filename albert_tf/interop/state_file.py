"""The state of a training run outside of TensorFlow, in one `.npz` file."""

from __future__ import annotations

import json
import os
import pathlib
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.errors import InputError

_BAD_FILE = (OSError, EOFError, ValueError, KeyError, TypeError)


def claim_folder(path: pathlib.Path) -> None:
    """Makes the folder of a state, before anything is trained.

    Raises:
      InputError: if there is a file in its place, or it has files but no state.
    """
    folder = path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found = {x.name for x in folder.iterdir()}
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be the folder of a run: {error.strerror}"
        ) from None
    # An interrupted first save leaves only its temporary file.
    if path.name not in found and found - {f"new-{path.name}"}:
        raise InputError(
            f"{folder}: has files, but no {path.name} of a run to resume; "
            "choose a new folder"
        )


def write_state(
    path: pathlib.Path,
    arrays: Sequence[np.ndarray],
    settings: Mapping[str, Any],
    seconds: float,
) -> None:
    """Writes the state of a run; the file appears when it is complete.

    Args:
      path: the file; its folder exists.
      arrays: weights, moments, step, ..., in an order of the caller's.
      settings: JSON values that the run has to be resumed with.
      seconds: time that the run has taken so far.
    """
    temporary = path.with_name(f"new-{path.name}")
    record = json.dumps({"settings": dict(settings), "seconds": seconds})
    np.savez(temporary, *arrays, record=record)
    temporary.replace(path)


def read_state(
    path: pathlib.Path, settings: Mapping[str, Any]
) -> tuple[list[np.ndarray], float] | None:
    """Reads what `write_state` wrote; None if there is no file.

    Raises:
      InputError: if the run had other settings, or the file is not one of
        `write_state`.
    """
    if not path.exists():
        return None
    try:
        with np.load(path) as saved:
            record = json.loads(str(saved["record"]))
            count = len(saved.files) - 1
            arrays = [saved[f"arr_{i}"] for i in range(count)]
    except (*_BAD_FILE, zipfile.BadZipFile) as error:
        raise InputError(
            f"{os.fspath(path)}: not the state of a run ({error}); start a new "
            "run in another folder"
        ) from None
    old, new = record["settings"], json.loads(json.dumps(dict(settings)))
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            raise InputError(
                f"{os.fspath(path)}: the run had another {name}; use the same "
                "to resume it, or start a new run with --init_from"
            )
    return arrays, record["seconds"]
