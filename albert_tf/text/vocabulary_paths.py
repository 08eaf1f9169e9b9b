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
            f"output={os.fspath(prefix)!r} must be a prefix of file names, "
            "such as vocab/spiece"
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

    Args:
      output: prefix of the paths.
      model_type: type of the vocabulary.
      overwrite: whether the files may exist.

    Raises:
      InputError: if the output cannot be written.
    """
    if is_remote(output):
        raise InputError(
            f"output={os.fspath(output)!r}: must be a local path; write the "
            "vocabulary there and copy it."
        )
    prefix = pathlib.Path(output)
    _make_folder(prefix)
    paths = list(vocabulary_files(prefix, model_type))
    for path in paths:
        if path.exists() and not overwrite:
            raise InputError(
                f"{path} exists; choose another output, or replace it with "
                "overwrite"
            )
    return paths


def _make_folder(prefix: pathlib.Path) -> None:
    reason = None
    try:
        prefix.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror
    if reason is None and not os.access(prefix.parent, os.W_OK):
        reason = "no permission to write there"
    if reason is not None or not prefix.name:
        raise InputError(
            f"output={str(prefix)!r}: cannot be written: "
            f"{reason or 'no file name'}; give another prefix."
        )
