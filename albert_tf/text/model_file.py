"""Reading SentencePiece model files, and saying what else a file is."""

import os
import pathlib
import re

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from albert_tf.errors import InputError

SPECIAL_PIECES = ("<pad>", "[CLS]", "[SEP]", "[MASK]")


def read_model(path: str | os.PathLike) -> bytes:
    """Reads a file; the path may be remote (`gs://...`).

    Raises:
      InputError: if there is no such file, or it cannot be read.
    """
    name = os.fspath(path)
    if "://" in name:
        # Imported here: only remote paths need TensorFlow's file systems.
        import tensorflow as tf

        try:
            with tf.io.gfile.GFile(name, "rb") as file:
                return file.read()
        except tf.errors.OpError as error:
            reason = " ".join(error.message.split())
            raise InputError(f"{name}: cannot be read: {reason}.") from error
    if pathlib.Path(name).is_dir():
        raise InputError(
            f"{name}: a folder, not a SentencePiece model; "
            "give the file in it, such as spiece.model."
        )
    try:
        return pathlib.Path(name).read_bytes()
    except OSError as error:
        raise InputError(
            f"{name}: cannot be read: {error.strerror}; "
            "give the path of a SentencePiece model."
        ) from error


def load_processor(
    content: bytes, name: str
) -> sentencepiece.SentencePieceProcessor:
    """Loads a SentencePiece model that has ALBERT's special pieces.

    Args:
      content: the serialized model.
      name: what error messages call it, such as its path.

    Raises:
      InputError: if it is no such model.
    """
    processor = sentencepiece.SentencePieceProcessor()
    try:
        # Empty and truncated content may also parse, as a model of no pieces.
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
    """Returns piece -> id of those that SentencePiece takes before all others.

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


def _describe(content: bytes) -> str:
    """Says in one line what is there instead of a SentencePiece model."""
    start = content[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    lines = start.decode("utf-8", errors="replace").splitlines()
    if not content:
        return "an empty file; copy the SentencePiece model again."
    if start.startswith(b"version https://git-lfs"):
        return (
            "a Git LFS pointer, not the SentencePiece model it stands for; "
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
