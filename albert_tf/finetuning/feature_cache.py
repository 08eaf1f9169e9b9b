"""On-disk cache of features, keyed by everything they depend on."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import pathlib
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.errors import InputError
from albert_tf.finetuning.features import Features
from albert_tf.folders import temporary_folder
from albert_tf.input_files import check_regular, sha256
from albert_tf.text.base_tokenizer import Tokenizer

# Version of the features, incremented when the same examples give other ones.
VERSION = 1

_logger = logging.getLogger(__name__)

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
      tokenizer: tokenizer of the model; its vocabulary and settings are used.
      settings: all other settings that affect the features: lengths, labels,
        columns, the policy for bad examples.
      files: files of the examples, in order; their contents are used, not their
        names.

    Raises:
      InputError: if a file cannot be read.
    """
    return {
        "version": VERSION,
        "task": task,
        "tokenizer": {
            "file": tokenizer.file_name,
            "fingerprint": tokenizer.fingerprint,
            **tokenizer.settings,
        },
        "settings": dict(settings),
        "files": [sha256(path) for path in files],
    }


def cached(
    folder: str | os.PathLike[str] | None,
    key: Mapping[str, Any],
    make: Callable[[], tuple[Features, str]],
) -> tuple[Features, str]:
    """Loads features from the cache, or makes and stores them.

    Each key has its own file, named after the SHA-256 of the key. Files appear
    when they are complete, so that processes can share a folder. A file that is
    damaged or has another key is replaced. This, and a failure to store the
    features, is reported on stderr.

    Args:
      folder: folder of the cache, created if necessary; None for no cache.
      key: JSON values, see `cache_key`.
      make: makes the features and remarks to print whenever they are used, such
        as the list of skipped examples; "" for none.

    Returns:
      The features and the remarks.

    Raises:
      InputError: if the folder is not local or cannot be made.
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
    # As it will be read back: tuples become lists.
    key = json.loads(json.dumps(key))
    canonical = json.dumps(key, sort_keys=True).encode()
    path = folder / f"{hashlib.sha256(canonical).hexdigest()}.npz"
    if path.exists():
        try:
            return read_features(path, key)
        except InputError as error:
            _logger.warning("%s (replaced now)", error)
    features, remarks = make()
    try:
        with temporary_folder(path) as new:
            write_features(features, remarks, key, new / path.name)
            os.replace(new / path.name, path)
    except (OSError, InputError) as error:
        reason = getattr(error, "strerror", None) or error
        _logger.warning("cache %s: features are not stored: %s", folder, reason)
    return features, remarks


def write_features(
    features: Features,
    remarks: str,
    key: Mapping[str, Any],
    path: str | os.PathLike[str],
) -> None:
    """Writes features to an uncompressed `.npz` file without pickles.

    Args:
      features: the features.
      remarks: remarks to print whenever they are used.
      key: what they were made from, as JSON values.
      path: the file; no extension is appended.
    """
    header = {
        "pad_id": features.pad_id,
        "sequences_per_example": features.sequences_per_example,
        "token_padding": dict(features.token_padding),
        # Named here, because damage to the ZIP directory may hide an entry.
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
    """Reads the features and the remarks that `write_features` wrote.

    Raises:
      InputError: if the file cannot be read, is damaged, has another key or
        another format.
    """
    check_regular(path)
    try:
        # NumPy verifies no checksum if a damaged header makes an array shorter.
        with zipfile.ZipFile(path) as file:
            damaged = file.testzip()
        if damaged:
            raise zipfile.BadZipFile(f"wrong checksum of {damaged}")
        with np.load(path, allow_pickle=False) as file:
            header = json.loads(str(file[_HEADER]))
            stored_key, remarks = header.pop("key"), header.pop("remarks")
            arrays: dict[str, Any] = {name: file[name] for name in _ARRAYS}
            for kind in _COLUMNS:
                names = header.pop(kind)
                arrays[kind] = {x: file[f"{kind}/{x}"] for x in names}
        features = Features(**arrays, **header)
    except Exception as error:  # NumPy and zipfile raise a dozen types.
        raise InputError(
            f"{path}: damaged, or not a file of features ({error}); remove it"
        ) from None
    if stored_key != key:
        raise InputError(f"{path}: features of another key; remove it")
    return features, remarks
