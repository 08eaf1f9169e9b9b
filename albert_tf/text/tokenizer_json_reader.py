"""Models and settings in a `tokenizer.json` of Hugging Face."""

from __future__ import annotations

import base64
import collections
import dataclasses
from collections.abc import Container, Iterable, Mapping
from typing import Any

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from albert_tf.errors import InputError, shown
from albert_tf.input_files import parse_object
from albert_tf.schema import type_problem, typed
from albert_tf.text.sentencepiece_model import (
    SPECIAL_PIECES,
    WORD_MARK,
    check_model,
    ends_in_digit_comma,
    user_defined_pieces,
)
from albert_tf.text.tokenizer_json import FIRST_ACCENTS, PENALTY, WHITESPACE

_Type = sentencepiece_model_pb2.ModelProto.SentencePiece

# Larger than any score (a logarithm), and within float32.
_MAX_SCORE = 1e30
_QUOTES = ("``", "''")
# Patterns whose replacement has no effect, as whitespace is always collapsed.
_SPACES = ({"Regex": " {2,}"}, {"Regex": WHITESPACE})


@dataclasses.dataclass(frozen=True)
class TokenizerJsonModel:
    """The SentencePiece model and settings of a `tokenizer.json`.

    Attributes:
      model_bytes: a serialized SentencePiece model with the same pieces.
      unk_token: the unknown piece.
      do_lower_case: whether text is lower-cased.
      strip_accents: whether text is decomposed (NFKD) and accents are dropped.
      replace_latex_quotes: whether `` and '' are replaced.
      splits_digit_commas: whether pieces such as `▁2000,` have the penalty with
        which transformers 4 avoids them. None if there are no such pieces.
      cut_at_user_defined_pieces: whether texts are split at these pieces.
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

    Pieces, scores, types, charsmap and word marks are those of the original
    model, so that texts get the same ids; its training settings are lost. The
    files of transformers 4 and 5 and of `tokenizer_json` are supported: Unigram
    models with a Metaspace pre-tokenizer and, as optional normalizers, replaced
    quotes, NFKD with StripAccents or `accents_pattern`, Lowercase and a
    charsmap.

    * Special added tokens become control pieces. Other added tokens, and all
      pieces with score 0, which SentencePiece gives to no ordinary piece,
      become user-defined pieces. Added tokens must be in the vocabulary.
    * Texts are split at added tokens before normalization, so either all
      user-defined pieces must be added tokens, or none of them.
    * The penalty of pieces that end in a digit and a comma is removed. No
      ordinary score (a log probability) is that low.
    * If the file has no charsmap, neither has the model.

    Raises:
      InputError: if the file is damaged, or has another type of tokenizer or an
        option that is not supported. The message begins with `name`.
    """
    try:
        return _read(parse_object(content, "it"))
    except ValueError as error:
        reason = " ".join(str(error).split())
    except (KeyError, TypeError, AttributeError) as error:
        reason = f"the file is damaged, {type(error).__name__}: {error}"
    raise InputError(
        f"{name}: not a supported tokenizer of ALBERT: {reason}; give the "
        "spiece.model that it was made from"
    )


def normalizer_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a `tokenizer.json` says about case and accents.

    The settings have the names of `tokenizer_config.json`. The result is empty
    if the file does not have the normalizer of ALBERT or BERT.
    """
    try:
        normalizer = config["normalizer"]
        if normalizer and normalizer["type"] == "BertNormalizer":
            return {
                "do_lower_case": typed(normalizer, "lowercase", bool, True),
                "strip_accents": typed(normalizer, "strip_accents", bool),
                "tokenize_chinese_chars": typed(
                    normalizer, "handle_chinese_chars", bool, True
                ),
            }
        steps, _ = _normalization(normalizer)
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}
    return {
        "do_lower_case": steps["do_lower_case"],
        "keep_accents": not steps["strip_accents"],
    }


def _read(config: Mapping[str, Any]) -> TokenizerJsonModel:
    if "model" not in config:
        raise ValueError("there is no tokenizer in the file")
    vocab, unk_id = _vocabulary(config["model"])
    added = _special_by_id(config.get("added_tokens") or [], vocab)
    steps, charsmap = _normalization(config.get("normalizer"))
    ends_in_comma = {
        i for i, (piece, _) in enumerate(vocab) if ends_in_digit_comma(piece)
    }
    penalized = {i for i in ends_in_comma if vocab[i][1] <= PENALTY}
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
    _set_trainer_spec(model, unk_id)
    spec = model.normalizer_spec
    spec.name = "user_defined" if charsmap else "identity"
    spec.precompiled_charsmap = charsmap
    spec.add_dummy_prefix = _begins_with_mark(config.get("pre_tokenizer"))
    content = model.SerializeToString()
    check_model(content)
    try:
        sentencepiece.SentencePieceProcessor(model_proto=content)
    except RuntimeError as error:
        raise ValueError(f"SentencePiece refuses the model: {error}") from None
    return TokenizerJsonModel(
        content,
        unk_token=vocab[unk_id][0],
        splits_digit_commas=bool(penalized) if ends_in_comma else None,
        cut_at_user_defined_pieces=_splits_at_user_defined(
            user_defined_pieces(content), added
        ),
        **steps,
    )


def _vocabulary(
    model: Mapping[str, Any],
) -> tuple[list[tuple[str, float]], int]:
    """Reads (piece, score) pairs and the id of the unknown piece."""
    vocab = model.get("vocab")
    # The oldest files lack the type, but only Unigram has a list.
    default = "Unigram" if isinstance(vocab, list) else "BPE or WordPiece"
    found = model.get("type", default)
    if found != "Unigram" or not isinstance(vocab, list):
        raise ValueError(f"the model type is {found}, not Unigram")
    if typed(model, "byte_fallback", bool):
        raise ValueError("byte_fallback is not supported")
    for i, row in enumerate(vocab):
        if (
            not isinstance(row, list)
            or list(map(type, row)) not in ([str, float], [str, int])
            or not row[0]
            or not abs(row[1]) < _MAX_SCORE  # nor NaN
        ):
            raise ValueError(f"row {i} of the vocabulary is {row!r:.60}")
    for piece, count in collections.Counter(p for p, _ in vocab).most_common(1):
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
    """Returns the equivalent settings, and the charsmap or b""."""
    charsmap = b""
    found = []
    for step in _flat(normalizer, "normalizers"):
        name = step["type"]
        if charsmap and name not in ("Replace", "Strip"):
            raise ValueError(f"the normalizer {name} follows the charsmap")
        if name == "Precompiled":
            try:
                charsmap = base64.b64decode(
                    step["precompiled_charsmap"], validate=True
                )
            except ValueError:
                raise ValueError("the charsmap is not base64") from None
        elif name == "Replace":
            pattern, replacement = step["pattern"], step["content"]
            if pattern in _SPACES and replacement == " ":
                continue
            accents = str(pattern.get("Regex")).startswith(FIRST_ACCENTS)
            if accents and not replacement and not charsmap:
                found.append("StripAccents")
                continue
            quote = pattern.get("String")
            if quote not in _QUOTES or replacement != '"' or charsmap:
                raise ValueError(
                    f"replacing {pattern} by {replacement!r} is not supported"
                )
            found.append(quote)
        elif name in ("NFKD", "StripAccents", "Lowercase"):
            found.append(name)
        elif name != "Strip":
            raise ValueError(f"the normalizer {name} is not supported")
    settings = {"do_lower_case": "Lowercase" in found}
    for setting, both in (
        ("strip_accents", ("NFKD", "StripAccents")),
        ("replace_latex_quotes", _QUOTES),
    ):
        used = tuple(name for name in found if name in both)
        if used and used != both:
            raise ValueError(
                f"the normalizer has {' '.join(used)}; supported are both "
                f"{' and '.join(both)}, in this order, or neither"
            )
        settings[setting] = bool(used)
    return settings, charsmap


def _special_by_id(
    added_tokens: Iterable[Mapping[str, Any]], vocab: list[tuple[str, float]]
) -> dict[int, bool]:
    """Maps the id of each added token to whether the token is special."""
    special = {}
    for token in added_tokens:
        content, i = token["content"], token["id"]
        if (
            type_problem(i, int, "id")
            or not 0 <= i < len(vocab)
            or vocab[i][0] != content
        ):
            raise ValueError(
                f"the added token {shown(content)}, id {shown(i)}, is not in "
                "the vocabulary"
            )
        if typed(token, "single_word", bool, False):
            raise ValueError(f"single_word of {content!r} is not supported")
        special[i] = typed(token, "special", bool, False)
        if typed(token, "normalized", bool, False) and not special[i]:
            raise ValueError(f"normalized of {content!r} is not supported")
    return special


def _splits_at_user_defined(
    user_defined: Mapping[str, int], added: Container[int]
) -> bool:
    """Returns whether the user-defined pieces are added tokens: all or none."""
    missing = [piece for piece, i in user_defined.items() if i not in added]
    if 0 < len(missing) < len(user_defined):
        raise ValueError(
            f"the user-defined piece {missing[0]!r} is not an added token, but "
            "other user-defined pieces are"
        )
    return len(missing) < len(user_defined)


def _begins_with_mark(pre_tokenizer: Mapping[str, Any] | None) -> bool:
    """Returns whether the first word of a text is given a word mark."""
    steps = _flat(pre_tokenizer, "pretokenizers")
    types = [step["type"] for step in steps]
    if types not in (["Metaspace"], ["WhitespaceSplit", "Metaspace"]):
        raise ValueError(
            f"the pre-tokenizer is {' '.join(types) or 'absent'}, not Metaspace"
        )
    metaspace = steps[-1]
    if metaspace["replacement"] != WORD_MARK:
        raise ValueError(
            f"the word mark is {metaspace['replacement']!r}, not {WORD_MARK!r}"
        )
    # The oldest files have `add_prefix_space` instead of `prepend_scheme`.
    prefix = typed(metaspace, "add_prefix_space", bool, True)
    always = "always" if prefix else "never"
    scheme = metaspace.get("prepend_scheme", always)
    # After WhitespaceSplit, words are marked only by "always".
    if scheme not in ("always", "first", "never") or (
        scheme != "always" and len(steps) > 1
    ):
        raise ValueError(
            f"prepend_scheme={scheme!r} with {' and '.join(types)} is not "
            "supported"
        )
    return scheme != "never"


def _flat(step: Mapping[str, Any] | None, name: str) -> list[Mapping[str, Any]]:
    """Flattens a possibly nested sequence of steps."""
    if step is None:
        return []
    if step["type"] != "Sequence":
        return [step]
    return [part for inner in step[name] for part in _flat(inner, name)]


def _set_trainer_spec(
    model: sentencepiece_model_pb2.ModelProto, unk_id: int
) -> None:
    """Sets the trainer settings that follow from the pieces."""
    pieces = model.pieces
    pad = [i for i, p in enumerate(pieces) if p.piece == "<pad>"]
    spec = model.trainer_spec
    spec.model_type = spec.UNIGRAM
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
