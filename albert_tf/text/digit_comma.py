"""The original's rule for pieces such as `▁2000,`, as a static table."""

import dataclasses
from collections.abc import Mapping
from typing import Literal

import sentencepiece

WORD_MARK = "\u2581"  # SentencePiece's ▁, which stands for a blank.

DigitComma = Literal["google", "corrected", "off"]


@dataclasses.dataclass(frozen=True)
class SplitPiece:
    """One of the pieces that replace a piece.

    Attributes:
      piece: its spelling.
      id: its id; that of `<unk>` if the vocabulary lacks it.
      start: where its text begins, in characters before the end of the
        replaced piece's text.
      limit: where it ends, counted in the same way; 0 for the comma.
    """

    piece: str
    id: int
    start: int
    limit: int


def split_digit_commas(
    processor: sentencepiece.SentencePieceProcessor, rule: DigitComma
) -> Mapping[int, tuple[SplitPiece, ...]]:
    """Tells what replaces each piece that ends in a digit and a comma.

    The original encodes such a piece again, without its comma and without word
    marks, and appends a comma of its own: "▁2000," becomes "▁2000" and ",".
    That depends on the piece alone, so it is worked out here once, for all
    pieces, and Python and the graph only look it up.

    Encoding again puts a word mark before a piece that had none. The original
    means to remove it and does not: "2," inside a word becomes "▁2" and ",".
    `google` does as the original; `corrected` removes the mark, like Hugging
    Face's `AlbertTokenizer`: "2" and ",". With `off`, as in KerasHub, pieces
    stay as they are.

    In a vocabulary without "," the appended comma is `<unk>`, as in the
    original. There the original would also split a run of unknown characters
    that ends in a digit and a comma; here only pieces are split.

    Args:
      processor: the SentencePiece model.
      rule: `google`, `corrected`, or `off` to split nothing.

    Returns:
      id -> its replacement, for the pieces that the rule splits.
    """
    if rule not in ("google", "corrected", "off"):
        raise ValueError(
            f"digit_comma must be 'google', 'corrected' or 'off', not {rule!r}."
        )
    splits = {}
    if rule == "off":
        return splits
    for piece_id in range(processor.get_piece_size()):
        piece = processor.id_to_piece(piece_id)
        if len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit():
            splits[piece_id] = _split(processor, piece, rule)
    return splits


def replace_pieces(
    ids: list[int], splits: Mapping[int, tuple[SplitPiece, ...]]
) -> list[int]:
    """Returns the ids with those that `splits` replaces replaced."""
    if splits.keys().isdisjoint(ids):
        return ids
    replaced = []
    for i in ids:
        split = splits.get(i)
        replaced += [part.id for part in split] if split else [i]
    return replaced


def _split(
    processor: sentencepiece.SentencePieceProcessor,
    piece: str,
    rule: DigitComma,
) -> tuple[SplitPiece, ...]:
    text = piece[:-1].replace(WORD_MARK, "")
    pieces = processor.encode(text, out_type=str)
    marked = pieces[0].startswith(WORD_MARK)
    if rule == "corrected" and marked and not piece.startswith(WORD_MARK):
        pieces[0] = pieces[0][len(WORD_MARK) :]
        pieces = pieces if pieces[0] else pieces[1:]
    pieces.append(",")

    replacement = []
    limit = sum(len(p.replace(WORD_MARK, "")) for p in pieces)
    for p in pieces:
        start, limit = limit, limit - len(p.replace(WORD_MARK, ""))
        replacement.append(
            SplitPiece(p, processor.piece_to_id(p), start, limit)
        )
    return tuple(replacement)
