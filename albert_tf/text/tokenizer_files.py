"""The files with which a tokenizer travels: records, runs and models."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any, get_args

from albert_tf.errors import InputError
from albert_tf.text.added_tokens import (
    check_added_tokens,
    content_of,
    more_added_tokens,
)
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.digit_comma import DigitComma
from albert_tf.text.model_file import read_model
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.tokenizer_json import TOKENIZER_JSON
from albert_tf.text.tokenizer_json_model import (
    TokenizerJsonModel,
    read_tokenizer_json,
)
from albert_tf.text.wordpiece_files import (
    describe_wordpiece,
    wordpiece_settings,
)
from albert_tf.text.wordpiece_tokenizer import WordPieceTokenizer

MODEL_FILE = AlbertTokenizer.file_name
WORDPIECE_FILE = WordPieceTokenizer.file_name
SETTINGS_FILE = "tokenizer_config.json"
_HUGGING_FACE_CONFIG = "config.json"

_TOKENIZER_CLASSES = ("AlbertTokenizer", "AlbertTokenizerFast")
# Those that do what `tokenizer.json` says, whatever model it is of.
_ANY_MODEL_CLASSES = ("PreTrainedTokenizerFast", "TokenizersBackend")
_SPECIAL_TOKENS = {
    "bos_token": "[CLS]",
    "eos_token": "[SEP]",
    "unk_token": "<unk>",
    "sep_token": "[SEP]",
    "pad_token": "<pad>",
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
}

# What Hugging Face's slow `AlbertTokenizer` (transformers to 4.57) does, as
# keyword arguments of ours; its two options keep their defaults.
HUGGING_FACE_SLOW = {
    "do_lower_case": True,
    "strip_accents": True,
    "replace_latex_quotes": True,
    "lower_characters_first": True,
    "digit_comma": "corrected",
    "match_special_tokens": True,
    "cut_at_user_defined_pieces": False,
}
# Settings that 0.1.0 did not write, and did not have.
_ADDED_SETTINGS = (
    "replace_latex_quotes",
    "lower_characters_first",
    "match_special_tokens",
    "cut_at_user_defined_pieces",
)


def tokenizer_files(
    tokenizer: Tokenizer, *, max_length: int | None = None
) -> dict[str, bytes]:
    """Returns name -> content: the model and its settings.

    The names, and the keys that Hugging Face has, are Hugging Face's.
    transformers 4 also does as the settings say if they are
    `HUGGING_FACE_SLOW`, with any `do_lower_case` and `strip_accents`.

    Args:
      tokenizer: the tokenizer.
      max_length: the longest row that the model takes, if known.
    """
    if isinstance(tokenizer, WordPieceTokenizer):
        described = describe_wordpiece(tokenizer)
    else:
        described = _describe(tokenizer)
    if max_length is not None:
        described["model_max_length"] = max_length
    return {
        tokenizer.file_name: tokenizer.model_bytes,
        SETTINGS_FILE: (json.dumps(described, indent=2) + "\n").encode(),
    }


def _describe(tokenizer: AlbertTokenizer) -> dict[str, Any]:
    settings = dict(tokenizer.settings)
    return {
        "tokenizer_class": "AlbertTokenizer",
        "do_lower_case": settings.pop("do_lower_case"),
        "keep_accents": not settings.pop("strip_accents"),
        "remove_space": True,
        **settings,
        # Unless told, transformers 5 forgets which segment a token is in.
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        **_SPECIAL_TOKENS,
        "unk_token": tokenizer.id_to_piece(tokenizer.unk_id),
    }


def load_tokenizer(folder: str | os.PathLike[str]) -> Tokenizer:
    """Loads the tokenizer of a folder of records, a run or a model.

    A folder without our settings, but with Hugging Face's `config.json` or
    `tokenizer_config.json`, is one of Hugging Face's: its tokenizer then does
    as the slow one of transformers 4 does with that folder. (So texts are cut
    at user-defined pieces if these are added tokens, which they are if the fast
    tokenizer wrote the settings.) One with a `vocab.txt` instead of a
    `spiece.model` is a `WordPieceTokenizer`.

    transformers 5 saves `tokenizer.json` instead of `spiece.model`. Where there
    is only that, the model is rebuilt from it (see `read_tokenizer_json`), and
    its normalizers decide on lower-casing, accents and quotes;
    `tokenizer_config.json` may be absent, but must not contradict. Commas stay
    at their digits (`digit_comma="off"`), as in transformers 5, unless the file
    has transformers 4's penalty against that. Texts are cut at user-defined
    pieces (`cut_at_user_defined_pieces`) if the file has these among its added
    tokens, as transformers 4 and 5 write it. The rest is as of the slow
    tokenizer. Settings of ours in `tokenizer_config.json`, which transformers 5
    passes on, decide on all but lower-casing and accents.

    English text gets the ids that it gets from transformers 5 with that folder.
    (The fast tokenizer of transformers 4 makes a "▁" of a blank before a cut.)
    These differ:

    * To transformers 5 a vertical tab, and the separators U+001C to U+001F, are
      no whitespace.
    * It drops all marks as accents; here they need a combining class. With
      `keep_accents`, several accents on one letter may be other pieces.
    * Here, if it lower-cases, `<PAD>` and `<UNK>` are special tokens, and
      user-defined pieces with letters are found in any case. To it they are
      parts of words in other spellings than their own.
    * Special tokens other than ALBERT's five are text here.
    * Its tables may be of another version of Unicode.

    Raises:
      InputError: a file is missing, is not what it should be, or asks for what
        is not supported.
    """
    # Only here: pure Python text code needs no TensorFlow.
    from tensorflow.io import gfile

    folder = os.fspath(folder)
    path, model, pieces, json_file = (
        os.path.join(folder, name)
        for name in (SETTINGS_FILE, MODEL_FILE, WORDPIECE_FILE, TOKENIZER_JSON)
    )
    kind, rebuilt = AlbertTokenizer, None
    if not gfile.exists(model) and gfile.exists(pieces):
        kind, model = WordPieceTokenizer, pieces
    if not gfile.exists(model) and gfile.exists(json_file):
        rebuilt = read_tokenizer_json(read_model(json_file), json_file)
    if gfile.exists(path):
        with gfile.GFile(path) as file:
            text = file.read()
    elif rebuilt or (
        gfile.exists(model)
        and gfile.exists(os.path.join(folder, _HUGGING_FACE_CONFIG))
    ):
        text = "{}"
    else:
        raise InputError(f"{folder} holds no tokenizer: no {SETTINGS_FILE}")
    with _described_by(path):
        described = json.loads(text)
        if kind is WordPieceTokenizer:
            settings = wordpiece_settings(described)
        else:
            settings = _settings(described, rebuilt)
    if rebuilt:
        tokenizer = AlbertTokenizer(
            rebuilt.model_bytes, name=json_file, **settings
        )
    else:
        tokenizer = kind.from_file(model, **settings)
    with _described_by(path):
        check_added_tokens(described, tokenizer)
    return tokenizer


@contextlib.contextmanager
def _described_by(path: str) -> Iterator[None]:
    """Says of errors that a file of settings is wrong."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path} does not describe a tokenizer: {error}"
        ) from None


def _settings(
    described: object, rebuilt: TokenizerJsonModel | None
) -> dict[str, Any]:
    """Returns our keyword arguments for a `tokenizer_config.json`.

    Args:
      described: what the file holds.
      rebuilt: what `tokenizer.json` holds, if that is used.
    """
    if not isinstance(described, dict):
        raise TypeError("no JSON object")
    if rebuilt:
        return _settings_beside_json(described, rebuilt)
    if "digit_comma" not in described:
        return _settings_of_hugging_face(described)
    return _settings_of_ours(described)


def _settings_of_ours(described: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings that `tokenizer_files` wrote."""
    rules = get_args(DigitComma)
    if described["digit_comma"] not in rules:
        raise ValueError(
            f"digit_comma must be one of {', '.join(rules)}, not "
            f"{described['digit_comma']}"
        )
    return {
        "do_lower_case": bool(described["do_lower_case"]),
        "strip_accents": not described["keep_accents"],
        "digit_comma": described["digit_comma"],
        **{name: bool(described.get(name, False)) for name in _ADDED_SETTINGS},
    }


def _settings_of_hugging_face(described: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings that give the slow tokenizer's ids, or refuses."""
    name = described.get("tokenizer_class") or "AlbertTokenizer"
    if name not in _TOKENIZER_CLASSES:
        raise ValueError(
            f"tokenizer_class={name} is not supported, only "
            f"{' and '.join(_TOKENIZER_CLASSES)}"
        )
    if not described.get("remove_space", True):
        raise ValueError(
            "remove_space=false (whitespace is kept as it is) is not supported"
        )
    for role, piece in _SPECIAL_TOKENS.items():
        token = content_of(described.get(role) or piece)
        if token != piece:
            raise ValueError(f"{role}={token!r} is not supported, only {piece}")
    return {
        **HUGGING_FACE_SLOW,
        "do_lower_case": bool(described.get("do_lower_case", True)),
        "strip_accents": not described.get("keep_accents", False),
        "cut_at_user_defined_pieces": bool(more_added_tokens(described)),
    }


def _settings_beside_json(
    described: dict[str, Any], rebuilt: TokenizerJsonModel
) -> dict[str, Any]:
    """Returns the settings that do what a `tokenizer.json` says, or refuses."""
    is_ours = "digit_comma" in described
    if is_ours:
        settings = _settings_of_ours(described)
    else:
        if described.get("tokenizer_class") in _ANY_MODEL_CLASSES:
            described = {**described, "tokenizer_class": None}
        settings = _settings_of_hugging_face(described)
        for name in ("replace_latex_quotes", "cut_at_user_defined_pieces"):
            settings[name] = getattr(rebuilt, name)
        if rebuilt.splits_digit_commas is False:
            settings["digit_comma"] = "off"
    for key, name in (
        ("do_lower_case", "do_lower_case"),
        ("keep_accents", "strip_accents"),
    ):
        value = getattr(rebuilt, name)
        if key in described and settings[name] != value:
            raise ValueError(
                f"{key}={described[key]} contradicts the normalizer of "
                f"{TOKENIZER_JSON}; correct the wrong one"
            )
        settings[name] = value
    unk_token = content_of(described.get("unk_token") or rebuilt.unk_token)
    if unk_token != rebuilt.unk_token:
        raise ValueError(
            f"unk_token={unk_token!r}, but {TOKENIZER_JSON} has "
            f"{rebuilt.unk_token!r} for unknown pieces"
        )
    return settings
