"""Pieces of a text, and where in it they come from."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import sentencepiece
from sentencepiece import sentencepiece_pb2

from albert_tf.text.digit_comma import SplitPiece
from albert_tf.text.normalizer import Normalizer
from albert_tf.text.special_tokens import SpecialTokens


class Token(NamedTuple):
    """A piece of a text.

    Attributes:
      piece: its spelling: with `▁` at the start of a word, or in WordPiece
        with `##` inside of one. SentencePiece's unknown piece is spelled as the
        text it stands for, WordPiece's as `[UNK]`.
      id: its id.
      start: where its text begins in the original text, in characters. A piece
        with `▁` begins at the blank before the word.
      limit: where it ends.
    """

    piece: str
    id: int
    start: int
    limit: int


def tokens_with_offsets(
    text: str,
    normalizer: Normalizer,
    processor: sentencepiece.SentencePieceProcessor,
    splits: Mapping[int, tuple[SplitPiece, ...]],
) -> Iterator[Token]:
    """Yields the tokens of a text without special tokens.

    Args:
      text: the original text, in which the offsets are.
      normalizer: what is done to it first.
      processor: what segments it.
      splits: id -> the pieces that replace it.
    """
    normalized, starts, limits = normalizer.align(text)
    # The end of an empty token (of a blank put before the first word) may be
    # the beginning of the next character.
    starts = [*starts, len(text)]

    def token(piece: str, piece_id: int, begin: int, end: int) -> Token:
        limit = limits[end - 1] if end > begin else starts[begin]
        return Token(piece, piece_id, starts[begin], limit)

    for piece, piece_id, begin, end in _segment(normalized, processor):
        split = splits.get(piece_id)
        if split is None:
            yield token(piece, piece_id, begin, end)
            continue
        for i, part in enumerate(split):
            first = max(begin, end - part.start) if i else begin
            last = max(begin, end - part.limit)
            yield token(part.piece, part.id, first, last)


def tokens_around_specials(
    text: str,
    special_tokens: SpecialTokens,
    tokens_of: Callable[[str], Iterable[Token]],
) -> Iterator[Token]:
    """Yields the tokens of a text, the special ones included.

    Args:
      text: the original text.
      special_tokens: finds those that are spelled out.
      tokens_of: what gives the tokens of a text without them.
    """
    spelling = {i: token for token, i in special_tokens.ids.items()}
    for part in special_tokens.split(text):
        if part.id is not None:
            limit = part.start + len(part.text)
            yield Token(spelling[part.id], part.id, part.start, limit)
            continue
        for piece, piece_id, start, limit in tokens_of(part.text):
            yield Token(piece, piece_id, part.start + start, part.start + limit)


def _segment(
    text: str, processor: sentencepiece.SentencePieceProcessor
) -> Iterator[Token]:
    """Yields SentencePiece's pieces of a normalized text."""
    proto = sentencepiece_pb2.SentencePieceText.FromString(
        processor.encode(text, out_type="serialized_proto")
    )
    if text.isascii():
        character_at = range(len(text) + 1)
    else:  # SentencePiece counts bytes.
        sizes = [len(character.encode()) for character in text]
        borders = itertools.accumulate(sizes, initial=0)
        character_at = {byte: i for i, byte in enumerate(borders)}
    for token in proto.pieces:
        yield Token(
            token.piece,
            token.id,
            character_at[token.begin],
            character_at[token.end],
        )
