"""Paths of the files of a new vocabulary."""

from __future__ import annotations

import os
import pathlib
from typing import Literal

from albert_tf.errors import InputError
from albert_tf.files import is_remote

ModelType = Literal["unigram", "bpe", "wordpiece"]


def vocabulary_files(
    prefix: str | os.PathLike[str], model_type: ModelType = "unigram"
) -> tuple[pathlib.Path, ...]:
    """Returns the paths of the files of a vocabulary.

    Raises:
      InputError: if the prefix is a folder.
    """
    prefix = pathlib.Path(prefix)
    if prefix.name in ("", ".."):
        raise InputError(
            f"output={os.fspath(prefix)!r} cannot be written: it must be a "
            "prefix of file names, such as vocab/spiece"
        )
    wordpiece = model_type == "wordpiece"
    suffixes = (".txt",) if wordpiece else (".model", ".vocab")
    return tuple(prefix.with_name(prefix.name + x) for x in suffixes)


def new_vocabulary_files(
    output: str | os.PathLike[str],
    model_type: ModelType,
    *,
    overwrite: bool = False,
) -> list[pathlib.Path]:
    """Returns the paths of a new vocabulary, whose folder is created.

    Raises:
      InputError: if the output cannot be written, or the files exist and
        `overwrite` is False.
    """
    if is_remote(output):
        raise InputError(
            f"output={os.fspath(output)!r}: must be a local path; write the "
            "vocabulary there and copy it"
        )
    paths = list(vocabulary_files(output, model_type))
    folder = paths[0].parent
    reason = "no permission to write there"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_writable = os.access(folder, os.W_OK)
    except OSError as error:
        is_writable, reason = False, error.strerror
    if not is_writable:
        raise InputError(
            f"output={os.fspath(output)!r}: cannot be written: {reason}; give "
            "another prefix"
        )
    for path in paths:
        if path.exists() and not overwrite:
            raise InputError(
                f"{path} exists; choose another output, or replace it with "
                "overwrite"
            )
    return paths
