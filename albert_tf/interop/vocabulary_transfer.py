"""Checkpoints with another vocabulary, whose embeddings are transferred."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from albert_tf.errors import InputError
from albert_tf.interop.checkpoint import (
    Checkpoint,
    LazyArrays,
    Vocabulary,
    check_vocabulary,
)
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.sentencepiece_model import WORD_MARK
from albert_tf.text.word_splitter import is_ideograph, is_punctuation
from albert_tf.text.wordpiece_tokenizer import (
    CONTINUATION,
    AlbertWordPieceTokenizer,
)

# The tensors with a row, or an element, for each piece.
_PER_PIECE = ("encoder/embeddings/word_embeddings", "mlm_head/output_bias")

_SPECIAL = ("pad_id", "unk_id", "cls_id", "sep_id", "mask_id")


def transfer_vocabulary(
    checkpoint: Checkpoint, tokenizer: Tokenizer
) -> Checkpoint:
    """Gives a checkpoint with a tokenizer another vocabulary.

    Pieces that both vocabularies have keep their embeddings and output biases.
    A new piece starts with the mean of those of its parts, which are old pieces
    (Gee et al. 2022, arXiv:2402.09977), or with the mean of all old pieces if
    it has no known part. Special tokens are matched by their role, and a
    WordPiece vocabulary's `##ing` is SentencePiece's `ing`. Its Chinese
    characters and punctuation are always words, so these have a row for both.

    The checkpoint must be without the heads of an objective, which may belong
    to its vocabulary. The `notes` of the result say how many pieces are the
    same, and its arrays are read on access.
    """
    old = checkpoint.tokenizer
    if old is None:
        problem = checkpoint.vocabulary.problem
        raise InputError(
            f"{checkpoint.source} has no usable tokenizer"
            f"{problem and f' ({problem})'}; its embeddings cannot be matched "
            "with another vocabulary"
        )
    check_vocabulary(old, checkpoint.config)
    known = _ids_by_surface(old)
    if isinstance(old, AlbertWordPieceTokenizer) and not isinstance(
        tokenizer, AlbertWordPieceTokenizer
    ):
        known = _without_word_marks(known, old)
    special = {
        getattr(tokenizer, name): getattr(old, name) for name in _SPECIAL
    }
    sources: list[list[int]] = []
    counts = {"the same": 0, "means of their parts": 0, "unknown": 0}
    for piece_id in range(tokenizer.vocab_size):
        surface = _surface(tokenizer, piece_id)
        kind = "the same"
        if piece_id in special:
            ids = [special[piece_id]]
        elif surface in known:
            ids = [known[surface]]
        else:
            ids = _parts(surface, known)
            kind = "means of their parts" if ids else "unknown"
        counts[kind] += 1
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
    if piece.startswith(CONTINUATION):
        return piece.removeprefix(CONTINUATION)
    return WORD_MARK + piece


def _ids_by_surface(tokenizer: Tokenizer) -> dict[str, int]:
    special = {getattr(tokenizer, name) for name in _SPECIAL}
    return {
        _surface(tokenizer, piece_id): piece_id
        for piece_id in range(tokenizer.vocab_size)
        if piece_id not in special
    }


def _without_word_marks(
    known: Mapping[str, int], tokenizer: AlbertWordPieceTokenizer
) -> dict[str, int]:
    """Adds characters that are always words of WordPiece without their mark.

    They replace the pieces of `##` and such a character, which were never used.
    """
    ideographs = tokenizer.settings["tokenize_chinese_chars"]

    def is_word(character: str) -> bool:
        return is_punctuation(character) or (
            ideographs and is_ideograph(character)
        )

    words = {
        surface[1:]: piece_id
        for surface, piece_id in known.items()
        if surface.startswith(WORD_MARK)
        and len(surface) == 2
        and is_word(surface[1])
    }
    return {**known, **words}


def _parts(surface: str, known: Mapping[str, int]) -> list[int]:
    """Cuts a new piece into known ones, the longest first, as WordPiece does.

    Characters that are not known are left out, and so is the mark of a word
    start where it would be a piece of its own.
    """
    ids, start = [], 0
    while start < len(surface):
        for end in range(len(surface), start, -1):
            part = surface[start:end]
            if part in known and part != WORD_MARK:
                ids.append(known[part])
                start = end
                break
        else:
            start += 1
    return ids
