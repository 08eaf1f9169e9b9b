"""Tokenizer files in folders of records, runs and models."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any, get_args

from albert_tf.errors import InputError
from albert_tf.files import exists
from albert_tf.input_files import parse_object, shown
from albert_tf.schema import typed
from albert_tf.text.added_tokens import (
    added_tokens_without_specials,
    check_added_tokens,
    check_special_tokens,
    content_of,
)
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.sentencepiece_model import DigitComma
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.tokenizer_json import (
    TOKENIZER_JSON,
    TokenizerJsonModel,
    read_tokenizer_json,
)
from albert_tf.text.vocabulary_file import read_model
from albert_tf.text.wordpiece_tokenizer import (
    WordPieceTokenizer,
    describe_wordpiece,
    wordpiece_settings,
)

MODEL_FILE = AlbertTokenizer.file_name
WORDPIECE_FILE = WordPieceTokenizer.file_name
SETTINGS_FILE = "tokenizer_config.json"
_HUGGING_FACE_CONFIG = "config.json"

_TOKENIZER_CLASSES = ("AlbertTokenizer", "AlbertTokenizerFast")
# Classes for any `tokenizer.json`, whatever its model.
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

# Arguments of `AlbertTokenizer` that give the ids of Hugging Face's slow one
# (transformers up to 4.57) with its default options.
HUGGING_FACE_SLOW = {
    "do_lower_case": True,
    "strip_accents": True,
    "replace_latex_quotes": True,
    "lower_characters_first": True,
    "digit_comma": "corrected",
    "match_special_tokens": True,
    "cut_at_user_defined_pieces": False,
}
# Key of our own: SHA-256 of the vocabulary's file.
_FINGERPRINT = "vocabulary_sha256"
# Settings that version 0.1.0 did not have.
_ADDED_SETTINGS = (
    "replace_latex_quotes",
    "lower_characters_first",
    "match_special_tokens",
    "cut_at_user_defined_pieces",
)


def tokenizer_files(
    tokenizer: Tokenizer, *, max_length: int | None = None
) -> dict[str, bytes]:
    """Returns the files of a tokenizer, as name -> content.

    Names and keys are Hugging Face's. transformers 4 gives the same ids if the
    settings are `HUGGING_FACE_SLOW`, with any `do_lower_case` and
    `strip_accents`.

    Args:
      tokenizer: the tokenizer.
      max_length: maximum sequence length of the model, if known.
    """
    if isinstance(tokenizer, WordPieceTokenizer):
        config = describe_wordpiece(tokenizer)
    else:
        config = _describe(tokenizer)
    config[_FINGERPRINT] = tokenizer.fingerprint
    if max_length is not None:
        config["model_max_length"] = max_length
    return {
        tokenizer.file_name: tokenizer.model_bytes,
        SETTINGS_FILE: (json.dumps(config, indent=2) + "\n").encode(),
    }


def _describe(tokenizer: Tokenizer) -> dict[str, Any]:
    settings = dict(tokenizer.settings)
    return {
        "tokenizer_class": "AlbertTokenizer",
        "do_lower_case": settings.pop("do_lower_case"),
        "keep_accents": not settings.pop("strip_accents"),
        "remove_space": True,
        **settings,
        # transformers 5 omits the segment ids by default.
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        **_SPECIAL_TOKENS,
        "unk_token": tokenizer.id_to_piece(tokenizer.unk_id),
    }


def load_tokenizer(folder: str | os.PathLike[str]) -> Tokenizer:
    """Loads the tokenizer in a folder of records, a run or a model.

    A folder with Hugging Face's `config.json` or `tokenizer_config.json`, but
    without settings of albert_tf, gives the ids of the slow tokenizer of
    transformers 4. (Texts are split at user-defined pieces if these are added
    tokens, as in the settings that the fast tokenizer writes.) A folder with a
    `vocab.txt` instead of a `spiece.model` gives a `WordPieceTokenizer`.

    transformers 5 saves `tokenizer.json` instead of `spiece.model`. If a folder
    has only that, the model is rebuilt from it (see `read_tokenizer_json`):

    * Its normalizers determine lower-casing, accents and quotes.
      `tokenizer_config.json` is optional, but must not contradict them.
    * Commas are not split from digits (`digit_comma="off"`), as in transformers
      5, unless the file has the penalty of transformers 4 for such pieces.
    * Texts are split at user-defined pieces (`cut_at_user_defined_pieces`) if
      these are added tokens, as transformers 4 and 5 write them.
    * All other settings are those of the slow tokenizer. Settings of albert_tf
      in `tokenizer_config.json`, which transformers 5 keeps, take precedence
      except for lower-casing and accents.

    For English text the ids are those of transformers 5 with the same folder.
    (The fast tokenizer of transformers 4 turns a blank before a split into a
    "▁".) There are these differences:

    * transformers 5 does not treat the vertical tab and the separators U+001C
      to U+001F as whitespace.
    * It drops all marks as accents; here only those with a combining class.
      With `keep_accents`, several accents on one letter may give other pieces.
    * Here, when lower-casing, `<PAD>` and `<UNK>` are special tokens, and
      user-defined pieces with letters are matched in any case.
    * Special tokens other than ALBERT's five are treated as text here.
    * The versions of Unicode may differ.

    Raises:
      InputError: a file is missing or invalid, or a setting is not supported.
    """
    folder = os.fspath(folder)
    path, model, pieces, json_file = (
        os.path.join(folder, name)
        for name in (SETTINGS_FILE, MODEL_FILE, WORDPIECE_FILE, TOKENIZER_JSON)
    )
    tokenizer_class, rebuilt = AlbertTokenizer, None
    if not exists(model) and exists(pieces):
        tokenizer_class, model = WordPieceTokenizer, pieces
    if not exists(model) and exists(json_file):
        rebuilt = read_tokenizer_json(read_model(json_file), json_file)
    if exists(path):
        config = parse_object(read_model(path), path)
    elif rebuilt or (
        exists(model) and exists(os.path.join(folder, _HUGGING_FACE_CONFIG))
    ):
        config = {}
    else:
        raise InputError(f"{folder}: no tokenizer found (no {SETTINGS_FILE})")
    with _errors_of(path):
        if tokenizer_class is WordPieceTokenizer:
            settings = wordpiece_settings(config)
        else:
            settings = _settings(config, rebuilt)
    if rebuilt:
        tokenizer = AlbertTokenizer(
            rebuilt.model_bytes, name=json_file, **settings
        )
    else:
        tokenizer = tokenizer_class.from_file(model, **settings)
    with _errors_of(path):
        check_added_tokens(config, tokenizer)
        _check_fingerprint(config, tokenizer, rebuilt)
    return tokenizer


@contextlib.contextmanager
def _errors_of(path: str) -> Iterator[None]:
    """Turns errors into input errors about a file of settings."""
    try:
        yield
    except (
        *(ValueError, KeyError, TypeError, AttributeError),
        RecursionError,
    ) as error:
        raise InputError(
            f"{path}: not a valid tokenizer config: {error}"
        ) from None


def _check_fingerprint(
    config: dict[str, Any],
    tokenizer: Tokenizer,
    rebuilt: TokenizerJsonModel | None,
) -> None:
    expected = typed(config, _FINGERPRINT, str)
    if expected is None or rebuilt or expected == tokenizer.fingerprint:
        return
    raise ValueError(
        f"{tokenizer.file_name} is not the vocabulary that was saved (its "
        f"SHA-256 is not {_FINGERPRINT}); copy it again"
    )


def check_settings(settings: dict[str, Any], source: str) -> None:
    """Checks arguments of `AlbertTokenizer` that the file `source` stores.

    Raises:
      InputError: a setting is unknown, or its value has another type.
    """
    for name, value in settings.items():
        if name == "digit_comma" and value in get_args(DigitComma):
            continue
        if name not in ("do_lower_case", "strip_accents", *_ADDED_SETTINGS):
            raise InputError(f"{source}: {name}={shown(value)} is unknown")
        typed(settings, name, bool, False, source)


def _settings(
    config: dict[str, Any], rebuilt: TokenizerJsonModel | None
) -> dict[str, Any]:
    """Returns the arguments of `AlbertTokenizer` for a `tokenizer_config.json`.

    `rebuilt` is the model of `tokenizer.json`, if there is no `spiece.model`.
    """
    if rebuilt:
        return _settings_beside_json(config, rebuilt)
    if "digit_comma" not in config:
        return _settings_of_hugging_face(config)
    return _settings_of_ours(config)


def _settings_of_ours(config: dict[str, Any]) -> dict[str, Any]:
    rules = get_args(DigitComma)
    if config["digit_comma"] not in rules:
        raise ValueError(
            f"digit_comma must be one of {', '.join(rules)}, not "
            f"{shown(config['digit_comma'])}"
        )
    for name in ("do_lower_case", "keep_accents"):
        if name not in config:
            raise ValueError(f"{name} is missing")
    return {
        "do_lower_case": typed(config, "do_lower_case", bool, True),
        "strip_accents": not typed(config, "keep_accents", bool, False),
        "digit_comma": config["digit_comma"],
        **{name: typed(config, name, bool, False) for name in _ADDED_SETTINGS},
    }


def _settings_of_hugging_face(config: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings that give the ids of the slow tokenizer."""
    name = typed(config, "tokenizer_class", str) or "AlbertTokenizer"
    if name not in _TOKENIZER_CLASSES:
        raise ValueError(
            f"tokenizer_class={name} is not supported, only "
            f"{' and '.join(_TOKENIZER_CLASSES)}"
        )
    if not typed(config, "remove_space", bool, True):
        raise ValueError(
            "remove_space=false (whitespace is kept as it is) is not supported"
        )
    check_special_tokens(config, _SPECIAL_TOKENS)
    return {
        **HUGGING_FACE_SLOW,
        "do_lower_case": typed(config, "do_lower_case", bool, True),
        "strip_accents": not typed(config, "keep_accents", bool, False),
        "cut_at_user_defined_pieces": bool(
            added_tokens_without_specials(config)
        ),
    }


def _settings_beside_json(
    config: dict[str, Any], rebuilt: TokenizerJsonModel
) -> dict[str, Any]:
    """Returns the settings that give the ids of a `tokenizer.json`."""
    if "digit_comma" in config:
        settings = _settings_of_ours(config)
    else:
        if typed(config, "tokenizer_class", str) in _ANY_MODEL_CLASSES:
            config = {**config, "tokenizer_class": None}
        settings = _settings_of_hugging_face(config)
        for name in ("replace_latex_quotes", "cut_at_user_defined_pieces"):
            settings[name] = getattr(rebuilt, name)
        if rebuilt.splits_digit_commas is False:
            settings["digit_comma"] = "off"
    for key, name in (
        ("do_lower_case", "do_lower_case"),
        ("keep_accents", "strip_accents"),
    ):
        value = getattr(rebuilt, name)
        if key in config and settings[name] != value:
            raise ValueError(
                f"{key}={config[key]} contradicts the normalizer of "
                f"{TOKENIZER_JSON}; correct either file"
            )
        settings[name] = value
    unk_token = content_of(config.get("unk_token") or rebuilt.unk_token)
    if unk_token != rebuilt.unk_token:
        raise ValueError(
            f"unk_token={unk_token!r}, but the unknown piece of "
            f"{TOKENIZER_JSON} is {rebuilt.unk_token!r}"
        )
    return settings
