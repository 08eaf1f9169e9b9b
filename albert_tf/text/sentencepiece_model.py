"""SentencePiece models: loading, special pieces and the digit-comma rule."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Literal

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from albert_tf.errors import InputError

SPECIAL_PIECES = ("<pad>", "[CLS]", "[SEP]", "[MASK]")
WORD_MARK = "\u2581"  # SentencePiece's ▁, which stands for a blank.

DigitComma = Literal["google", "corrected", "off"]


def load_processor(
    content: bytes, name: str
) -> sentencepiece.SentencePieceProcessor:
    """Loads a SentencePiece model with ALBERT's special pieces.

    Args:
      content: the serialized model.
      name: name of the model in error messages, such as its path.

    Raises:
      InputError: the content is not such a model.
    """
    processor = sentencepiece.SentencePieceProcessor()
    try:
        # Empty and truncated content may parse as a model without pieces.
        loaded = bool(content) and processor.LoadFromSerializedProto(content)
    except RuntimeError:
        loaded = False
    if not loaded or not processor.get_piece_size():
        raise InputError(f"{name}: {_describe(content)}")
    missing = [
        piece
        for piece in SPECIAL_PIECES
        if processor.is_unknown(processor.piece_to_id(piece))
    ]
    if missing:
        raise InputError(
            f"{name}: the vocabulary has no piece {' '.join(missing)}; ALBERT "
            f"needs {' '.join(SPECIAL_PIECES)}: train one with "
            "`albert train-vocab`, or give another model."
        )
    return processor


def user_defined_pieces(content: bytes) -> dict[str, int]:
    """Returns piece -> id of the user-defined pieces of a model.

    SentencePiece prefers these pieces to all others.

    Args:
      content: a serialized SentencePiece model.
    """
    model = sentencepiece_model_pb2.ModelProto.FromString(content)
    return {
        piece.piece: i
        for i, piece in enumerate(model.pieces)
        if piece.type == piece.USER_DEFINED
        and piece.piece not in SPECIAL_PIECES
    }


@dataclasses.dataclass(frozen=True)
class SplitPiece:
    """One of the pieces that replace a piece.

    Attributes:
      piece: the piece.
      id: id of the piece, or of `<unk>` if it is not in the vocabulary.
      start: start of its text, in characters before the end of the text of the
        replaced piece.
      end: end of its text, counted in the same way; 0 for the comma.
    """

    piece: str
    id: int
    start: int
    end: int


def split_digit_commas(
    processor: sentencepiece.SentencePieceProcessor, rule: DigitComma
) -> Mapping[int, tuple[SplitPiece, ...]]:
    """Returns the replacements of pieces that end in a digit and a comma.

    The original encodes such a piece again, without its comma and word marks,
    and appends a separate comma: "▁2000," becomes "▁2000" and ",". As that
    depends on the piece alone, it is computed once for all pieces, and looked
    up in Python and in the graph.

    Encoding again adds a word mark to a piece that had none. The original
    intends to remove it but does not: "2," inside a word becomes "▁2" and ",".
    `google` is the original's behavior; `corrected` removes the mark, like
    Hugging Face's `AlbertTokenizer`: "2" and ",". With `off`, as in KerasHub,
    pieces are not split.

    In a vocabulary without "," the appended comma is `<unk>`, as in the
    original. With such a vocabulary the original would also split unknown text
    that ends in a digit and a comma; here only pieces are split.

    Args:
      processor: the SentencePiece model.
      rule: `google`, `corrected`, or `off` to split nothing.

    Returns:
      id -> replacement, for the pieces that the rule splits.
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
    """Returns the ids after applying the replacements in `splits`."""
    if splits.keys().isdisjoint(ids):
        return ids
    replaced = []
    for i in ids:
        split = splits.get(i)
        replaced += [part.id for part in split] if split else [i]
    return replaced


def _describe(content: bytes) -> str:
    """Returns an error message that says what the content is instead."""
    start = content[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    lines = start.decode("utf-8", errors="replace").splitlines()
    if not content:
        return "an empty file; copy the SentencePiece model again."
    if start.startswith(b"version https://git-lfs"):
        return (
            "a Git LFS pointer, not a SentencePiece model; "
            "fetch the file with `git lfs pull`."
        )
    if re.match(r"\S+\t-?\d", lines[0] if lines else ""):
        return (
            "the text listing of a vocabulary (.vocab), not a SentencePiece "
            "model; give the .model file beside it."
        )
    if start[:1] == b"<":
        return (
            "a web page (HTML or XML), not a SentencePiece model; "
            "download the raw file."
        )
    if start[:1] == b"{":
        return (
            "JSON (such as a tokenizer.json), not a SentencePiece model; "
            "give spiece.model."
        )
    return (
        "not a SentencePiece model, or a damaged one; "
        "give a file such as spiece.model."
    )


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
    end = sum(len(p.replace(WORD_MARK, "")) for p in pieces)
    for p in pieces:
        start, end = end, end - len(p.replace(WORD_MARK, ""))
        replacement.append(SplitPiece(p, processor.piece_to_id(p), start, end))
    return tuple(replacement)
