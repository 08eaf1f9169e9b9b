"""The SentencePiece model that a `tokenizer.json` was made from."""

from __future__ import annotations

import base64
import collections
import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from albert_tf.errors import InputError
from albert_tf.text.added_tokens import are_all_added, special_by_id
from albert_tf.text.digit_comma import WORD_MARK
from albert_tf.text.model_file import SPECIAL_PIECES
from albert_tf.text.tokenizer_json import PENALTY, WHITESPACE

_Type = sentencepiece_model_pb2.ModelProto.SentencePiece
_TrainerSpec = sentencepiece_model_pb2.TrainerSpec

# Out of reach for logarithms, and within float32.
_NO_SCORE = 1e30
_QUOTES = ("``", "''")
# What else than quotes is replaced. Whitespace is collapsed in any case.
_BLANKS = ({"Regex": " {2,}"}, {"Regex": WHITESPACE})


@dataclasses.dataclass(frozen=True)
class TokenizerJsonModel:
    """What a `tokenizer.json` holds, in our terms.

    Attributes:
      model_bytes: a serialized SentencePiece model of the same pieces.
      unk_token: the spelling of the unknown piece.
      do_lower_case: whether the file lower-cases.
      strip_accents: whether it decomposes (NFKD) and drops accents.
      replace_latex_quotes: whether it replaces `` and ''.
      splits_digit_commas: whether pieces such as `▁2000,` have the penalty with
        which transformers 4 keeps them from being taken; None if there are no
        such pieces.
      cut_at_user_defined_pieces: whether texts are cut at user-defined pieces.
    """

    model_bytes: bytes
    unk_token: str
    do_lower_case: bool
    strip_accents: bool
    replace_latex_quotes: bool
    splits_digit_commas: bool | None
    cut_at_user_defined_pieces: bool


def read_tokenizer_json(content: bytes, name: str) -> TokenizerJsonModel:
    """Rebuilds the SentencePiece model of an ALBERT `tokenizer.json`.

    Pieces, scores, types, charsmap and word marks are those of the model that
    the file was made from, so that texts get the same ids. How the model was
    trained is lost. Read are the files of transformers 4 and 5 and of our
    `tokenizer_json`: Unigram models whose text is normalized by replaced
    quotes, NFKD with StripAccents, Lowercase and a charsmap, and cut into
    words by Metaspace; of all that, only Metaspace must be there.

    * An added token is a control piece if the file calls it special. Otherwise
      it is user-defined: SentencePiece looks for it before all others. So is
      every other piece with the score 0, as SentencePiece gives it to no
      ordinary one. An added token must be in the vocabulary.
    * Texts are cut at added tokens. So of the user-defined pieces all must be
      added tokens, which are looked for in texts that are not yet normalized;
      or none.
    * Pieces that end in a digit and a comma lose the penalty of 100, if they
      have it. Scores are logarithms of probabilities: none is so low by itself.
    * A file without a charsmap is of a model without one, and stays so.

    Args:
      content: the file.
      name: what error messages call it, such as its path.

    Raises:
      InputError: the file is damaged, is of another kind of tokenizer, or does
        what SentencePiece and ALBERT do not.
    """
    try:
        return _read(json.loads(content))
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
    except (KeyError, TypeError, AttributeError) as error:
        reason = f"the file is damaged, {type(error).__name__}: {error}"
    raise InputError(
        f"{name}: not a tokenizer of ALBERT that can be read: {reason}; give "
        "the spiece.model that it was made from."
    )


def _read(described: Mapping[str, Any]) -> TokenizerJsonModel:
    if not isinstance(described, dict) or "model" not in described:
        raise ValueError("no tokenizer is described there")
    vocab, unk_id = _vocabulary(described["model"])
    added = special_by_id(described.get("added_tokens") or [], vocab)
    steps, charsmap = _normalization(described.get("normalizer"))
    is_number = {
        i
        for i, (piece, _) in enumerate(vocab)
        if len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit()
    }
    penalized = {i for i in is_number if vocab[i][1] <= PENALTY}

    model = sentencepiece_model_pb2.ModelProto()
    for i, (piece, score) in enumerate(vocab):
        score -= PENALTY * (i in penalized)
        model.pieces.add(piece=piece, score=score, type=_Type.NORMAL)
        if i == unk_id:
            model.pieces[i].type = _Type.UNKNOWN
        elif piece in SPECIAL_PIECES:
            model.pieces[i].type = _Type.CONTROL
        elif added.get(i):
            if score:
                raise ValueError(
                    f"the special token {piece!r} is an ordinary piece"
                )
            model.pieces[i].type = _Type.CONTROL
        elif i in added or not score:
            model.pieces[i].type = _Type.USER_DEFINED
    _specify(model, unk_id)
    model.normalizer_spec.name = "user_defined" if charsmap else "identity"
    model.normalizer_spec.precompiled_charsmap = charsmap
    model.normalizer_spec.add_dummy_prefix = _begins_with_mark(
        described.get("pre_tokenizer")
    )
    content = model.SerializeToString()
    try:
        sentencepiece.SentencePieceProcessor(model_proto=content)
    except RuntimeError as error:
        raise ValueError(f"SentencePiece refuses the model: {error}") from None
    user_defined = {
        i: p.piece
        for i, p in enumerate(model.pieces)
        if p.type == _Type.USER_DEFINED
    }
    return TokenizerJsonModel(
        content,
        unk_token=vocab[unk_id][0],
        splits_digit_commas=bool(penalized) if is_number else None,
        cut_at_user_defined_pieces=are_all_added(user_defined, added),
        **steps,
    )


def _vocabulary(
    model: Mapping[str, Any],
) -> tuple[list[tuple[str, float]], int]:
    """Returns pieces with their scores, and the id of the unknown piece."""
    vocab = model.get("vocab")
    # The oldest files do not name the type; only Unigram's vocabulary is a
    # list.
    kind = model.get("type", "Unigram" if isinstance(vocab, list) else None)
    if kind != "Unigram":
        raise ValueError(
            f"a model of the type {kind or 'BPE or WordPiece'}, not Unigram"
        )
    if model.get("byte_fallback"):
        raise ValueError("byte_fallback is not supported")
    for i, row in enumerate(vocab):
        if (
            not isinstance(row, list)
            or list(map(type, row)) not in ([str, float], [str, int])
            or not row[0]
            or not abs(row[1]) < _NO_SCORE  # which NaN is not, either
        ):
            raise ValueError(f"row {i} of the vocabulary is {row!r:.60}")
    counts = collections.Counter(piece for piece, _ in vocab)
    for piece, count in counts.most_common(1):
        if count > 1:
            raise ValueError(f"the piece {piece!r} is in the vocabulary twice")
    unk_id = model.get("unk_id")
    if type(unk_id) is not int or not 0 <= unk_id < len(vocab):
        raise ValueError(
            f"unk_id={unk_id!r} is not in the vocabulary of {len(vocab):,}"
        )
    return [(piece, score) for piece, score in vocab], unk_id


def _normalization(
    normalizer: Mapping[str, Any] | None,
) -> tuple[dict[str, bool], bytes]:
    """Returns our settings that do the same, and the charsmap or b""."""
    charsmap = b""
    kinds = []
    for step in _flat(normalizer, "normalizers"):
        kind = step["type"]
        if charsmap and kind not in ("Replace", "Strip"):
            raise ValueError(f"the normalizer {kind} follows the charsmap")
        if kind == "Precompiled":
            try:
                charsmap = base64.b64decode(
                    step["precompiled_charsmap"], validate=True
                )
            except ValueError:
                raise ValueError("the charsmap is not base64") from None
        elif kind == "Replace":
            pattern, replacement = step["pattern"], step["content"]
            if pattern in _BLANKS and replacement == " ":
                continue
            quote = pattern.get("String")
            if quote not in _QUOTES or replacement != '"' or charsmap:
                raise ValueError(
                    f"replacing {pattern} by {replacement!r} is not supported"
                )
            kinds.append(quote)
        elif kind in ("NFKD", "StripAccents", "Lowercase"):
            kinds.append(kind)
        elif kind != "Strip":
            raise ValueError(f"the normalizer {kind} is not supported")
    settings = {"do_lower_case": "Lowercase" in kinds}
    for name, both in (
        ("strip_accents", ("NFKD", "StripAccents")),
        ("replace_latex_quotes", _QUOTES),
    ):
        found = tuple(kind for kind in kinds if kind in both)
        if found and found != both:
            raise ValueError(
                f"the normalizer has {' '.join(found)}; supported are both "
                f"{' and '.join(both)}, in this order, or neither"
            )
        settings[name] = bool(found)
    return settings, charsmap


def _begins_with_mark(pre_tokenizer: Mapping[str, Any] | None) -> bool:
    """Returns whether a text begins with a word mark, as words do."""
    steps = _flat(pre_tokenizer, "pretokenizers")
    kinds = [step["type"] for step in steps]
    if kinds not in (["Metaspace"], ["WhitespaceSplit", "Metaspace"]):
        raise ValueError(
            f"the pre-tokenizer is {' '.join(kinds) or 'absent'}, not Metaspace"
        )
    metaspace = steps[-1]
    if metaspace["replacement"] != WORD_MARK:
        raise ValueError(
            f"the mark of words is {metaspace['replacement']!r}, not "
            f"{WORD_MARK!r}"
        )
    # The oldest files say it by add_prefix_space.
    always = "always" if metaspace.get("add_prefix_space", True) else "never"
    scheme = metaspace.get("prepend_scheme", always)
    # What WhitespaceSplit cut apart has no other mark than that.
    if scheme not in ("always", "first", "never") or (
        scheme != "always" and len(steps) > 1
    ):
        raise ValueError(
            f"prepend_scheme={scheme!r} with {' and '.join(kinds)} is not "
            "supported"
        )
    return scheme != "never"


def _flat(step: Mapping[str, Any] | None, name: str) -> list[Mapping[str, Any]]:
    """Returns a step, or those of a (nested) sequence of steps, in order."""
    if step is None:
        return []
    if step["type"] != "Sequence":
        return [step]
    return [part for inner in step[name] for part in _flat(inner, name)]


def _specify(model: sentencepiece_model_pb2.ModelProto, unk_id: int) -> None:
    """Fills in what of the training can be told from the pieces."""
    pieces = model.pieces
    pad = [i for i, p in enumerate(pieces) if p.piece == "<pad>"]
    spec = model.trainer_spec
    spec.model_type = _TrainerSpec.UNIGRAM
    spec.vocab_size = len(pieces)
    spec.unk_id = unk_id
    spec.unk_piece = pieces[unk_id].piece
    spec.bos_id = spec.eos_id = -1
    spec.pad_id = pad[0] if pad else -1
    for piece in pieces:
        if piece.type == _Type.CONTROL and piece.piece != "<pad>":
            spec.control_symbols.append(piece.piece)
        elif piece.type == _Type.USER_DEFINED:
            spec.user_defined_symbols.append(piece.piece)
