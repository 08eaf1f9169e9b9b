"""Checkpoints with another vocabulary, whose embeddings are transferred."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from albert_tf.errors import InputError
from albert_tf.interop.checkpoint import Checkpoint, LazyArrays, Vocabulary
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.wordpiece_tokenizer import AlbertWordPieceTokenizer

# The tensors with a row, or an element, for each piece.
_PER_PIECE = ("encoder/embeddings/word_embeddings", "mlm_head/output_bias")

# SentencePiece's mark of a space, with which the pieces of word starts begin.
_SPACE = "▁"
# WordPiece's mark of all other pieces.
_CONTINUES = "##"

_SPECIAL = ("pad_id", "unk_id", "cls_id", "sep_id", "mask_id")


def transfer_vocabulary(
    checkpoint: Checkpoint, tokenizer: Tokenizer
) -> Checkpoint:
    """Gives a checkpoint another vocabulary.

    Pieces that both vocabularies have keep their embeddings and output biases.
    Another piece starts with the mean of those of the pieces that it consists
    of (Gee et al. 2022, arXiv:2402.09977), the longest ones first, or, if none
    of its characters is known, with the mean of all. The special tokens
    correspond to each other, and so do a WordPiece vocabulary's `##ing` and
    SentencePiece's `ing`. The heads of an objective, such as a generator, are
    left out.

    Args:
      checkpoint: the checkpoint, with its tokenizer.
      tokenizer: the new tokenizer.

    Returns:
      The checkpoint with the new tokenizer, whose size is its `vocab_size`. Its
      `notes` say how many pieces are the same, and its arrays are read on
      access.

    Raises:
      InputError: if the checkpoint has no tokenizer.
    """
    old = checkpoint.tokenizer
    if old is None:
        problem = checkpoint.vocabulary.problem
        raise InputError(
            f"{checkpoint.source} has no usable tokenizer"
            f"{problem and f' ({problem})'}; to give it another vocabulary, "
            "its pieces must be known"
        )
    known = _ids_by_surface(old)
    special = {
        getattr(tokenizer, name): getattr(old, name) for name in _SPECIAL
    }
    sources: list[list[int]] = []
    counts = {"the same": 0, "means of their parts": 0, "unknown": 0}
    for piece_id in range(tokenizer.vocab_size):
        surface = _surface(tokenizer, piece_id)
        if piece_id in special:
            ids = [special[piece_id]]
        else:
            ids = _parts(surface, known)
        same = len(ids) == 1 and (
            piece_id in special or known.get(surface) == ids[0]
        )
        kind = "the same" if same else "means of their parts"
        counts[kind if ids else "unknown"] += 1
        sources.append(ids)
    arrays = checkpoint.arrays

    def read(path: str) -> np.ndarray:
        array = arrays[path]
        if path not in _PER_PIECE:
            return array
        mean = array[: old.vocab_size].mean(axis=0)
        return np.stack(
            [array[ids].mean(axis=0) if ids else mean for ids in sources]
        )

    shown = ", ".join(f"{count:,} {kind}" for kind, count in counts.items())
    return dataclasses.replace(
        checkpoint,
        config=checkpoint.config.replace(vocab_size=tokenizer.vocab_size),
        vocabulary=Vocabulary(tokenizer.with_max_length(old.model_max_length)),
        objective_arrays={},
        arrays=LazyArrays(arrays, read),
        notes=(
            *checkpoint.notes,
            f"vocabulary: {old.vocab_size:,} -> {tokenizer.vocab_size:,} "
            f"pieces: {shown}",
        ),
    )


def _surface(tokenizer: Tokenizer, piece_id: int) -> str:
    """Returns a piece as SentencePiece writes it, whatever wrote it."""
    piece = tokenizer.id_to_piece(piece_id)
    if not isinstance(tokenizer, AlbertWordPieceTokenizer):
        return piece
    if piece.startswith(_CONTINUES):
        return piece.removeprefix(_CONTINUES)
    return _SPACE + piece


def _ids_by_surface(tokenizer: Tokenizer) -> dict[str, int]:
    special = {getattr(tokenizer, name) for name in _SPECIAL}
    return {
        _surface(tokenizer, piece_id): piece_id
        for piece_id in range(tokenizer.vocab_size)
        if piece_id not in special
    }


def _parts(surface: str, known: Mapping[str, int]) -> list[int]:
    """Cuts a piece into known ones, the longest first, as WordPiece does.

    Characters that are not known are left out, and so is a space that is not
    part of a longer piece, which every word start would share.
    """
    ids, start = [], 0
    while start < len(surface):
        for end in range(len(surface), start, -1):
            part = surface[start:end]
            if part in known and (part != _SPACE or part == surface):
                ids.append(known[part])
                start = end
                break
        else:
            start += 1
    return ids
