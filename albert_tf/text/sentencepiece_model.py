"""SentencePiece models: loading, checks and the digit-comma rule."""

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Literal, get_args

import numpy as np
import sentencepiece
from google.protobuf.message import DecodeError
from sentencepiece import sentencepiece_model_pb2

from albert_tf.errors import InputError
from albert_tf.text.charsmap import check_charsmap, replaces_spaces
from albert_tf.text.vocabulary_file import MAX_PIECE_BYTES, MAX_PIECES
from albert_tf.wire_format import fields_of

SPECIAL_PIECES = ("<pad>", "[CLS]", "[SEP]", "[MASK]")
WORD_MARK = "\u2581"  # SentencePiece's ▁, which stands for a space

_Piece = sentencepiece_model_pb2.ModelProto.SentencePiece

DigitComma = Literal["google", "corrected", "off"]


def load_processor(
    content: bytes, name: str
) -> sentencepiece.SentencePieceProcessor:
    """Loads a SentencePiece model that has ALBERT's special pieces.

    Raises:
      InputError: if the content is not a SentencePiece model, or if a special
        piece is missing. The message begins with `name`.
    """
    try:
        check_model(content)
    except ValueError as error:
        raise InputError(
            f"{name}: not a usable SentencePiece model: {error}; "
            "give a file such as spiece.model"
        ) from None
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
            "`albert train-vocab`, or give another model"
        )
    return processor


def with_control_pieces(
    content: bytes, processor: sentencepiece.SentencePieceProcessor
) -> bytes:
    """Returns a model whose special pieces are found in no text.

    They are control pieces in Google's models and ours, but user-defined in
    those of other recipes, and "[SEP]" in a text would become a separator.

    Args:
      content: a serialized model.
      processor: the same, loaded.
    """
    ids = [processor.piece_to_id(piece) for piece in SPECIAL_PIECES]
    if all(map(processor.is_control, ids)):
        return content
    model = sentencepiece_model_pb2.ModelProto.FromString(content)
    for i in ids:
        model.pieces[i].type = _Piece.CONTROL
    return model.SerializeToString()


def check_model(content: bytes) -> None:
    """Rejects models on which SentencePiece would crash or exhaust memory.

    SentencePiece does not validate its input. Content that is not a model at
    all passes this check; loading it then fails.

    Raises:
      ValueError: if there are too many pieces; if a piece is too long, is not
        UTF-8, contains NUL or has no finite score; or if the charsmap is
        damaged.
    """
    problem = _check_sizes(content)
    try:
        model = sentencepiece_model_pb2.ModelProto.FromString(content)
    except DecodeError:
        return
    if problem:  # As with groups, which parsers skip: pieces may follow.
        raise ValueError(f"it has unknown fields ({problem})")
    for i, piece in enumerate(model.pieces):
        # Protocol Buffers returns bytes if a string is not UTF-8.
        if not isinstance(piece.piece, str):
            raise ValueError(f"piece {i} is not UTF-8")
        if "\0" in piece.piece:  # SentencePiece would abort the process.
            raise ValueError(f"piece {i} has a NUL character")
        if not math.isfinite(piece.score):
            raise ValueError(f"the score of piece {i} is {piece.score}")
    check_charsmap(model.normalizer_spec.precompiled_charsmap)
    check_charsmap(model.denormalizer_spec.precompiled_charsmap)


def piece_probabilities(content: bytes) -> np.ndarray | None:
    """Returns the probability of each piece of a serialized unigram model.

    Scores of a unigram model are logarithms of probabilities (Kudo 2018,
    arXiv:1804.10959). Pieces that the model does not score, such as special
    ones, count as the most frequent one.

    Returns:
      float64 `[pieces]`, or None if the model is of another type.
    """
    model = sentencepiece_model_pb2.ModelProto.FromString(content)
    if model.trainer_spec.model_type != model.trainer_spec.UNIGRAM:
        return None
    scored = np.array([p.type == p.NORMAL for p in model.pieces])
    scores = np.array([p.score for p in model.pieces], np.float64)
    found = np.exp(np.minimum(scores, 0.0))
    found[~scored] = found[scored].max(initial=0.0)
    return found


def _check_sizes(content: bytes) -> str:
    """Checks number and sizes of a serialized model's pieces, unparsed.

    Returns:
      Why not all of the content was checked, or "".

    Raises:
      ValueError: if there are too many pieces, or one is too long.
    """
    num_pieces, fields = 0, fields_of(memoryview(content))
    while True:
        try:
            field, piece = next(fields)
        except StopIteration:
            return ""
        except ValueError as error:
            return str(error)
        if field != 1:
            continue
        # 32 bytes leave room for the score and the type.
        if len(piece) > MAX_PIECE_BYTES + 32:
            raise ValueError(
                f"piece {num_pieces} has {len(piece):,} bytes, "
                f"and pieces have at most {MAX_PIECE_BYTES:,}"
            )
        num_pieces += 1
        if num_pieces > MAX_PIECES:
            raise ValueError(f"there are more than {MAX_PIECES:,} pieces")


def words_are_independent(content: bytes) -> bool:
    """Returns whether a model segments each word independently of the others.

    If so, the pieces of a text are those of its words, each of which begins
    with a word mark. `content` is a serialized model.
    """
    model = sentencepiece_model_pb2.ModelProto.FromString(content)
    trainer, normalizer = model.trainer_spec, model.normalizer_spec
    used = (_Piece.NORMAL, _Piece.USER_DEFINED)
    pieces = {piece.piece for piece in model.pieces if piece.type in used}
    return (
        trainer.model_type in (trainer.UNIGRAM, trainer.BPE)
        and not trainer.treat_whitespace_as_suffix
        and normalizer.add_dummy_prefix
        and normalizer.remove_extra_whitespaces
        and normalizer.escape_whitespaces
        # Otherwise an unknown word would form one token with its mark.
        and WORD_MARK in pieces
        and not any(WORD_MARK in piece[1:] or " " in piece for piece in pieces)
        and not replaces_spaces(normalizer.precompiled_charsmap)
    )


def user_defined_pieces(content: bytes) -> dict[str, int]:
    """Returns the ids of the user-defined pieces of a serialized model.

    SentencePiece always uses these pieces where they match.
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
    """One of the pieces that a piece is split into.

    Attributes:
      piece: the piece.
      id: id of the piece, or of `<unk>` if it is not in the vocabulary.
      start, end: its offsets, in characters before the end of the original
        piece; the end of the comma is 0.
    """

    piece: str
    id: int
    start: int
    end: int


def split_digit_commas(
    processor: sentencepiece.SentencePieceProcessor, rule: DigitComma
) -> Mapping[int, tuple[SplitPiece, ...]]:
    """Tabulates how pieces that end in a digit and a comma are split.

    Google's code encodes such a piece again, without its comma and word marks,
    and appends a separate comma: "▁2000," becomes "▁2000" and ",". The result
    depends on the piece alone, so it is computed once for all pieces, and
    looked up in Python and in graphs.

    Encoding again adds a word mark to a piece that had none. Google's code is
    meant to remove it but does not: "2," inside a word becomes "▁2" and ",".
    `google` reproduces this; `corrected` removes the mark, like Hugging Face's
    `AlbertTokenizer`: "2" and ",". With `off`, as in KerasHub, pieces are not
    split.

    If the vocabulary lacks ",", the appended comma is `<unk>`, as in Google's
    code, which would then also split unknown text that ends in a digit and a
    comma; here only pieces are split.

    Returns:
      The parts of each piece that is split, by its id.
    """
    if rule not in get_args(DigitComma):
        raise ValueError(
            f"digit_comma={rule!r} must be 'google', 'corrected' or 'off'"
        )
    if rule == "off":
        return {}
    splits = {}
    for piece_id in range(processor.get_piece_size()):
        piece = processor.id_to_piece(piece_id)
        if ends_in_digit_comma(piece):
            splits[piece_id] = _split(processor, piece, rule)
    return splits


def ends_in_digit_comma(piece: str) -> bool:
    """Returns whether a piece ends in a digit and a comma."""
    return piece.endswith(",") and piece[-2:-1].isdigit()


def replace_pieces(
    ids: list[int], splits: Mapping[int, tuple[SplitPiece, ...]]
) -> list[int]:
    """Replaces each id in `splits` by the ids of its parts."""
    if splits.keys().isdisjoint(ids):
        return ids
    replaced = []
    for i in ids:
        split = splits.get(i)
        replaced += [part.id for part in split] if split else [i]
    return replaced


def _describe(content: bytes) -> str:
    """Describes content that is not a SentencePiece model."""
    start = content[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    lines = start.decode("utf-8", errors="replace").splitlines()
    if not content:
        return "an empty file; copy the SentencePiece model again"
    if start.startswith(b"version https://git-lfs"):
        return (
            "a Git LFS pointer, not a SentencePiece model; "
            "fetch the file with `git lfs pull`"
        )
    if re.match(r"\S+\t-?\d", lines[0] if lines else ""):
        return (
            "the text listing of a vocabulary (.vocab), not a SentencePiece "
            "model; give the .model file beside it"
        )
    if start[:1] == b"<":
        return (
            "a web page (HTML or XML), not a SentencePiece model; "
            "download the raw file"
        )
    if start[:1] == b"{":
        return (
            "JSON (such as a tokenizer.json), not a SentencePiece model; "
            "give spiece.model"
        )
    return (
        "not a SentencePiece model, or a damaged one; "
        "give a file such as spiece.model"
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
