"""Reading of vocabulary files, and limits on their size."""

from __future__ import annotations

import os

from albert_tf.errors import InputError
from albert_tf.files import is_remote
from albert_tf.input_files import check_not_web_address, read_bytes
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
    if not is_remote(name) and os.path.isdir(name):
        raise InputError(
            f"{name}: a folder, not a SentencePiece model; "
            "give a file in it, such as spiece.model"
        )
    return read_bytes(name)
