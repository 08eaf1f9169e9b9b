"""Vocabulary files of tokenizers: reading, limits, and their pieces as JSON."""

from __future__ import annotations

import os
from collections.abc import Container
from typing import Any

from sentencepiece import sentencepiece_model_pb2

from albert_tf.errors import InputError
from albert_tf.input_files import (
    MAX_BYTES,
    check_not_web_address,
    check_regular,
)

# Many times what any published vocabulary has, which is 262,144 pieces.
MAX_PIECES = 1 << 20
# SentencePiece trains pieces of at most 512 characters. It builds its trie by a
# recursion over the bytes of a piece, so that a very long one ends the process.
MAX_PIECE_BYTES = 2048

# Added to the score of a piece that is used only where there is no other.
PENALTY = -100.0


def read_model(path: str | os.PathLike[str]) -> bytes:
    """Reads a file of a tokenizer; the path may be remote (`gs://...`).

    Raises:
      InputError: the file does not exist, cannot be read, is not a regular
        file, or is larger than any vocabulary.
    """
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
    # Imported here: only remote paths need TensorFlow's file systems.
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


def library_model(
    model: sentencepiece_model_pb2.ModelProto,
    unk_id: int,
    avoided: Container[int],
) -> dict[str, Any]:
    """Returns a SentencePiece model as the `model` of a `tokenizer.json`.

    The pieces with the ids `avoided` are used only where there is no other.
    """
    if model.trainer_spec.model_type != model.trainer_spec.BPE:
        return {
            "type": "Unigram",
            "unk_id": unk_id,
            "vocab": [
                [p.piece, p.score + PENALTY * (i in avoided)]
                for i, p in enumerate(model.pieces)
            ],
            "byte_fallback": False,
        }
    ids = {p.piece: i for i, p in enumerate(model.pieces)}
    # The best first. Any two pieces that make a third are merged to it.
    learned = [
        (-p.score, p.piece)
        for i, p in enumerate(model.pieces)
        if p.type == p.NORMAL and i not in avoided
    ]
    return {
        "type": "BPE",
        "unk_token": model.pieces[unk_id].piece,
        "fuse_unk": True,
        "byte_fallback": False,
        "vocab": ids,
        "merges": [
            [piece[:cut], piece[cut:]]
            for _, piece in sorted(learned)
            for cut in range(1, len(piece))
            if piece[:cut] in ids and piece[cut:] in ids
        ],
    }
