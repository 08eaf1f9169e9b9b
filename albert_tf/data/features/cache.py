"""Features on disk, used again only where all they depend on is the same."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from albert_tf.data.digest import sha256
from albert_tf.data.features.rows import Rows
from albert_tf.data.features.rows_file import read_rows, write_rows
from albert_tf.errors import InputError
from albert_tf.text.base_tokenizer import Tokenizer

# Of the features: one more where the same examples give other rows than before.
VERSION = 1


def cache_key(
    *,
    task: str,
    tokenizer: Tokenizer,
    settings: Mapping[str, Any],
    files: Sequence[str | os.PathLike],
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
    folder: str | os.PathLike | None,
    key: Mapping[str, Any],
    make: Callable[[], tuple[Rows, str]],
) -> tuple[Rows, str]:
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
            return read_rows(path, origin=key)
        except InputError as error:
            _say(f"{error} (replaced now)")
    rows, remarks = make()
    try:
        _write(rows, remarks, key, path)
    except OSError as error:
        _say(f"cache {folder}: features are not stored: {error.strerror}")
    return rows, remarks


def _write(
    rows: Rows, remarks: str, key: Mapping[str, Any], path: pathlib.Path
) -> None:
    temporary = path.with_name(f".{path.stem}.{uuid.uuid4().hex}.tmp")
    try:
        write_rows(rows, temporary, origin=key, remarks=remarks)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
