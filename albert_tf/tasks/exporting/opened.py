"""The tokenizer of what is exported, and its file."""

from __future__ import annotations

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Iterator

from albert_tf.errors import InputError
from albert_tf.interop.checkpoint import Checkpoint
from albert_tf.text.base_tokenizer import Tokenizer


def tokenizer_of(
    checkpoint: Checkpoint, source: str | os.PathLike[str]
) -> Tokenizer:
    """Returns the tokenizer of a checkpoint.

    Args:
      checkpoint: the checkpoint.
      source: where it is, for errors.

    Raises:
      InputError: it has none.
    """
    if checkpoint.tokenizer is None:
        problem = checkpoint.vocabulary.problem
        raise InputError(
            f"{os.fspath(source)} holds no tokenizer, which an export needs"
            f"{problem and ': '}{problem}"
        )
    return checkpoint.tokenizer


@contextlib.contextmanager
def vocabulary_file(tokenizer: Tokenizer) -> Iterator[pathlib.Path]:
    """Gives the block a file of the tokenizer: assets are taken from files."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / tokenizer.file_name
        path.write_bytes(tokenizer.model_bytes)
        yield path
