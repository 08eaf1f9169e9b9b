"""Reading of vocabulary files, and limits on their size."""

from __future__ import annotations

import os

from albert_tf.errors import InputError
from albert_tf.input_files import (
    MAX_BYTES,
    check_not_web_address,
    check_regular,
)
from albert_tf.schema import check_argument

# The largest published vocabulary has 262,144 pieces.
MAX_PIECES = 1 << 20
# SentencePiece trains pieces of at most 512 characters. It builds its trie
# recursively over the bytes of a piece, so a very long one crashes the process.
MAX_PIECE_BYTES = 2048


def read_model(path: str | os.PathLike[str]) -> bytes:
    """Reads a tokenizer file from a local or remote (`gs://...`) path.

    Raises:
      InputError: if the file does not exist, cannot be read, is not a regular
        file, or is larger than any vocabulary.
    """
    check_argument(path, str | os.PathLike, "path")
    name = os.fspath(path)
    check_not_web_address(
        name,
        "the path of a tokenizer's file, or load the tokenizer of a checkpoint "
        'with load_tokenizer("albert/albert-base-v2")',
    )
    content = _read_remote(name) if "://" in name else _read_local(name)
    if len(content) > MAX_BYTES:
        raise InputError(
            f"{name}: larger than {MAX_BYTES >> 20} MiB, so not the tokenizer "
            "of an ALBERT"
        )
    return content


def _read_remote(name: str) -> bytes:
    # Imported here, as only remote paths need TensorFlow.
    import tensorflow as tf

    try:
        with tf.io.gfile.GFile(name, "rb") as file:
            return file.read(MAX_BYTES + 1)
    except tf.errors.OpError as error:
        reason = " ".join(error.message.split())
        raise InputError(f"{name}: cannot be read: {reason}.") from error


def _read_local(name: str) -> bytes:
    if os.path.isdir(name):
        raise InputError(
            f"{name}: a folder, not a SentencePiece model; "
            "give a file in it, such as spiece.model."
        )
    check_regular(name)
    try:
        with open(name, "rb") as file:
            return file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a null byte
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"{name}: cannot be read: {reason}; "
            "give the path of a SentencePiece model."
        ) from error
