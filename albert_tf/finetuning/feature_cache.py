"""Cache of features on disk, keyed by everything that they depend on."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.errors import InputError
from albert_tf.files import sha256
from albert_tf.finetuning.features import Features
from albert_tf.folders import temporary_folder
from albert_tf.text.base_tokenizer import Tokenizer

# Version of the features: one more when the same examples give others.
VERSION = 1

_HEADER = "header"
_ARRAYS = ("ids", "types", "starts")
_COLUMNS = ("columns", "token_columns")


def cache_key(
    *,
    task: str,
    tokenizer: Tokenizer,
    settings: Mapping[str, Any],
    files: Sequence[str | os.PathLike[str]],
) -> dict[str, Any]:
    """Returns all that features depend on, as JSON values.

    Args:
      task: name of the task.
      tokenizer: its vocabulary and its settings count.
      settings: all others that decide the features: lengths, labels, columns,
        what is done with bad examples.
      files: what the examples are read from, in this order; their content
        counts and not their names.

    Raises:
      InputError: a file cannot be read.
    """
    digests = []
    for path in files:
        try:
            digests.append(sha256(path))
        except OSError as error:
            raise InputError(
                f"{path}: cannot be read: {error.strerror or error}"
            ) from None
    return {
        "version": VERSION,
        "task": task,
        "tokenizer": {
            "file": tokenizer.file_name,
            "fingerprint": tokenizer.fingerprint,
            **tokenizer.settings,
        },
        "settings": dict(settings),
        "files": digests,
    }


def cached(
    folder: str | os.PathLike[str] | None,
    key: Mapping[str, Any],
    make: Callable[[], tuple[Features, str]],
) -> tuple[Features, str]:
    """Reads features that were made before, or makes and stores them.

    Each key has a file of its own, named after its sha256, that appears when it
    is complete: processes may share a folder. A file that is damaged, or is of
    another key, is made again, which stderr is told, as it is if the features
    cannot be stored.

    Args:
      folder: where the files are, made if there is none; None: nothing is read
        or stored.
      key: JSON values; see `cache_key`.
      make: makes the features, and what is to be said whenever they are used,
        such as which examples were left out; "": nothing.

    Returns:
      What `make` returns.

    Raises:
      InputError: the folder is not local or cannot be made.
    """
    if folder is None:
        return make()
    if "://" in os.fspath(folder):
        raise InputError(f"cache {folder}: must be a local folder")
    folder = pathlib.Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"cache {folder}: the folder cannot be made: {error.strerror}"
        ) from None
    # As it is read back: a tuple is a list, say.
    key = json.loads(json.dumps(key))
    canonical = json.dumps(key, sort_keys=True).encode()
    path = folder / f"{hashlib.sha256(canonical).hexdigest()}.npz"
    if path.exists():
        try:
            return read_features(path, key)
        except InputError as error:
            _say(f"{error} (replaced now)")
    features, remarks = make()
    try:
        with temporary_folder(path) as new:
            write_features(features, remarks, key, new / path.name)
            os.replace(new / path.name, path)
    except (OSError, InputError) as error:
        reason = getattr(error, "strerror", None) or error
        _say(f"cache {folder}: features are not stored: {reason}")
    return features, remarks


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def write_features(
    features: Features,
    remarks: str,
    key: Mapping[str, Any],
    path: str | os.PathLike[str],
) -> None:
    """Writes one file: an uncompressed `.npz`, without pickles.

    Args:
      features: any.
      remarks: what is to be said whenever they are used.
      key: what they were made from, as JSON values.
      path: the file, whose name stays as it is.
    """
    header = {
        "pad_id": features.pad_id,
        "sequences_per_example": features.sequences_per_example,
        "token_padding": dict(features.token_padding),
        # Named here, for damage to a ZIP's directory may hide an entry.
        **{kind: list(getattr(features, kind)) for kind in _COLUMNS},
        "key": dict(key),
        "remarks": remarks,
    }
    arrays: dict[str, Any] = {x: getattr(features, x) for x in _ARRAYS}
    for kind in _COLUMNS:
        for name, values in getattr(features, kind).items():
            arrays[f"{kind}/{name}"] = values
    arrays[_HEADER] = np.array(json.dumps(header))
    with open(path, "wb") as file:
        np.savez(file, **arrays)


def read_features(
    path: str | os.PathLike[str], key: Mapping[str, Any]
) -> tuple[Features, str]:
    """Reads what `write_features` has written: the features and the remarks.

    Raises:
      InputError: the file cannot be read, is damaged, has another key or is
        something else.
    """
    try:
        # NumPy checks no sum of an array that a damaged header makes shorter.
        with zipfile.ZipFile(path) as file:
            damaged = file.testzip()
        if damaged:
            raise zipfile.BadZipFile(f"wrong checksum of {damaged}")
        with np.load(path, allow_pickle=False) as file:
            header = json.loads(str(file[_HEADER]))
            its_key, remarks = header.pop("key"), header.pop("remarks")
            arrays: dict[str, Any] = {name: file[name] for name in _ARRAYS}
            for kind in _COLUMNS:
                names = header.pop(kind)
                arrays[kind] = {x: file[f"{kind}/{x}"] for x in names}
        features = Features(**arrays, **header)
    except Exception as error:  # NumPy and zipfile raise a dozen kinds.
        raise InputError(
            f"{path}: damaged, or no file of features ({error}); remove it"
        ) from None
    if its_key != key:
        raise InputError(f"{path}: features of something else; remove it")
    return features, remarks
