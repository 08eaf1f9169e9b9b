"""Tokenizer files in the folders of records, runs and models."""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from albert_tf.errors import InputError
from albert_tf.files import exists, output_folder, write_together
from albert_tf.input_files import parse_object, read_bytes, shown
from albert_tf.schema import typed
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.normalizer import CASE_SETTINGS
from albert_tf.text.sentencepiece_model import (
    SPECIAL_PIECES,
    DigitComma,
    user_defined_pieces,
)
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.tokenizer_json import TOKENIZER_JSON, tokenizer_json
from albert_tf.text.tokenizer_json_reader import (
    TokenizerJsonModel,
    normalizer_settings,
    read_tokenizer_json,
)
from albert_tf.text.vocabulary_file import read_model
from albert_tf.text.word_splitter import WordRules
from albert_tf.text.wordpiece_tokenizer import AlbertWordPieceTokenizer

_logger = logging.getLogger(__name__)

SETTINGS_FILE = "tokenizer_config.json"
MODEL_CONFIG = "config.json"
_SPECIAL_TOKENS_MAP = "special_tokens_map.json"
# Settings that change the ids of ordinary text.
_KEYS = (
    "do_lower_case",
    "keep_accents",
    "strip_accents",
    "tokenize_chinese_chars",
)

MODEL_FILE = AlbertTokenizer.file_name
WORDPIECE_FILE = AlbertWordPieceTokenizer.file_name

_TOKENIZER_CLASSES = ("AlbertTokenizer", "AlbertTokenizerFast")
# Classes for a `tokenizer.json` of any model type.
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

# Arguments of `AlbertTokenizer` that reproduce Hugging Face's slow tokenizer
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
# A key of albert_tf only: the SHA-256 of the vocabulary file.
_FINGERPRINT = "vocabulary_sha256"
# A longer one is taken as unknown.
_LARGEST_LENGTH = 1 << 20
# Settings of `AlbertTokenizer` that Hugging Face's do not have.
_OWN_SETTINGS = (
    "replace_latex_quotes",
    "lower_characters_first",
    "match_special_tokens",
    "cut_at_user_defined_pieces",
)


# Arguments of `AlbertWordPieceTokenizer` that reproduce Hugging Face's slow
# `BertTokenizer` (transformers up to 4.57) with its default options. One
# difference: in cased text it matches "[MA\u00adSK]" as [MASK], since it
# searches for special tokens again after dropping the soft hyphen.
HUGGING_FACE_SLOW_WORDPIECE = {
    "do_lower_case": True,
    "strip_accents": None,
    "tokenize_chinese_chars": True,
    "rules": "hugging_face",
    "match_special_tokens": True,
}

# Community checkpoints of ALBERT with a `vocab.txt` use any of these.
_WORDPIECE_CLASSES = (
    "BertTokenizer",
    "BertTokenizerFast",
    "AlbertTokenizer",
    "AlbertTokenizerFast",
)
_WORDPIECE_TOKENS = {
    "unk_token": "[UNK]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
}
_OUR_RULES = "word_rules"  # only in files of albert_tf


def tokenizer_files(
    tokenizer: Tokenizer, *, max_length: int | None = None
) -> dict[str, bytes]:
    """Returns the files of a tokenizer, as a dict from name to content.

    Names and keys are Hugging Face's. transformers 4 gives the same ids if the
    settings are `HUGGING_FACE_SLOW`, apart from `do_lower_case` and
    `strip_accents`.

    Args:
      tokenizer: the tokenizer.
      max_length: maximum sequence length of the model, if known.
    """
    if isinstance(tokenizer, AlbertWordPieceTokenizer):
        config = _describe_wordpiece(tokenizer)
    else:
        config = _describe(tokenizer)
    config[_FINGERPRINT] = tokenizer.fingerprint
    if max_length is not None:
        config["model_max_length"] = max_length
    return {
        tokenizer.file_name: tokenizer.model_bytes,
        SETTINGS_FILE: (json.dumps(config, indent=2) + "\n").encode(),
    }


def huggingface_files(
    tokenizer: Tokenizer, *, max_length: int | None = None
) -> dict[str, bytes]:
    """Returns `tokenizer_files`, and the `tokenizer.json` of transformers 5."""
    files = tokenizer_files(tokenizer, max_length=max_length)
    # transformers 5 builds the right one from a vocab.txt itself.
    if isinstance(tokenizer, AlbertTokenizer):
        files[TOKENIZER_JSON] = tokenizer_json(tokenizer)
    return files


def save_tokenizer(
    tokenizer: Tokenizer, folder: str | os.PathLike[str]
) -> None:
    """Writes `huggingface_files`; see `Tokenizer.save_pretrained`."""
    folder = os.fspath(folder)
    for name in (MODEL_FILE, WORDPIECE_FILE):
        path = os.path.join(folder, name)
        same = name == tokenizer.file_name
        if exists(path) and not (
            same and read_bytes(path) == tokenizer.model_bytes
        ):
            raise InputError(
                f"{path} is another vocabulary, which would be replaced; save "
                "the tokenizer to another folder"
            )
    files = huggingface_files(tokenizer, max_length=tokenizer.model_max_length)
    with output_folder(folder):
        write_together(
            {os.path.join(folder, name): x for name, x in files.items()}
        )


def _describe(tokenizer: Tokenizer) -> dict[str, Any]:
    """Returns the `tokenizer_config.json` of an `AlbertTokenizer`."""
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
    """Loads the tokenizer of a folder of records, a run or a model.

    Hugging Face's `config.json` or `tokenizer_config.json`, without settings of
    albert_tf, selects the slow tokenizer of transformers 4. What the latter
    does not say is read from other files (`_read_config`). (Texts are split at
    user-defined pieces if these are added tokens, as in the config that the
    fast tokenizer saves.) A folder that has a `vocab.txt` but no `spiece.model`
    gives an `AlbertWordPieceTokenizer`.

    transformers 5 saves a `tokenizer.json` instead of `spiece.model`. If the
    folder has only this file, the model is rebuilt from it (see
    `read_tokenizer_json`):

    * Its normalizers determine lower-casing, accents and quotes.
      `tokenizer_config.json` is optional, but must not contradict them.
    * Commas are not split from digits (`digit_comma="off"`), as in transformers
      5, unless such pieces have the penalty that transformers 4 gives them.
    * Texts are split at user-defined pieces (`cut_at_user_defined_pieces`) if
      these are added tokens, as transformers 4 and 5 save them.
    * All other settings are those of the slow tokenizer. Settings of albert_tf
      in `tokenizer_config.json`, which transformers 5 keeps, take precedence
      except for lower-casing and accents.

    For English text the ids equal those of transformers 5 with the same folder.
    (The fast tokenizer of transformers 4 turns a space before a split into a
    "▁".) Known differences:

    * transformers 5 does not treat the vertical tab and the separators U+001C
      to U+001F as whitespace.
    * transformers 5 drops all marks as accents; albert_tf only those with a
      combining class. With `keep_accents`, several accents on one letter may
      give other pieces.
    * When lower-casing, albert_tf also matches `<PAD>` and `<UNK>` as special
      tokens, and user-defined pieces with letters in any case.
    * albert_tf treats special tokens other than ALBERT's five as text.
    * The versions of Unicode may differ.

    Raises:
      InputError: if a file is missing or invalid, or a setting is not
        supported.
    """
    folder = os.fspath(folder)
    path, model, pieces, json_file = (
        os.path.join(folder, name)
        for name in (SETTINGS_FILE, MODEL_FILE, WORDPIECE_FILE, TOKENIZER_JSON)
    )
    tokenizer_class, rebuilt = AlbertTokenizer, None
    if not exists(model) and exists(pieces):
        tokenizer_class, model = AlbertWordPieceTokenizer, pieces
    if not exists(model) and exists(json_file):
        rebuilt = read_tokenizer_json(read_model(json_file), json_file)
    if rebuilt:
        config = parse_object(read_model(path), path) if exists(path) else {}
    elif exists(path) or (
        exists(model) and exists(os.path.join(folder, MODEL_CONFIG))
    ):
        config = _read_config(folder)
    else:
        raise InputError(f"{folder}: no tokenizer found (no {SETTINGS_FILE})")
    with _config_errors(path):
        if tokenizer_class is AlbertWordPieceTokenizer:
            settings = _wordpiece_settings(config)
        else:
            settings = _settings(config, rebuilt)
    if rebuilt:
        tokenizer = AlbertTokenizer(
            rebuilt.model_bytes, name=json_file, **settings
        )
    else:
        tokenizer = tokenizer_class.from_file(model, **settings)
    with _config_errors(path):
        _check_added_tokens(config, tokenizer)
        _check_fingerprint(config, tokenizer, rebuilt)
        length = typed(config, "model_max_length", float)
        if length is not None and length < 2:
            raise ValueError(f"model_max_length={length} must be at least 2")
    # transformers writes 1e30 where it does not know the length.
    if length is None or length > _LARGEST_LENGTH:
        return tokenizer
    return tokenizer.with_max_length(int(length))


@contextlib.contextmanager
def _config_errors(path: str) -> Iterator[None]:
    """Converts errors to an `InputError` that names the config file."""
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
    """Checks arguments of `AlbertTokenizer` that were read from `source`.

    Raises:
      InputError: if a setting is unknown, or its value has another type.
    """
    for name, value in settings.items():
        if name == "digit_comma" and value in get_args(DigitComma):
            continue
        if name not in (*CASE_SETTINGS, *_OWN_SETTINGS):
            raise InputError(f"{source}: {name}={shown(value)} is unknown")
        typed(settings, name, bool, False, source)


def _settings(
    config: dict[str, Any], rebuilt: TokenizerJsonModel | None
) -> dict[str, Any]:
    """Returns the arguments of `AlbertTokenizer` for a `tokenizer_config.json`.

    `rebuilt` is the content of `tokenizer.json`, if there is no `spiece.model`.
    """
    if rebuilt:
        return _tokenizer_json_settings(config, rebuilt)
    if "digit_comma" not in config:
        return _hugging_face_settings(config)
    return _albert_tf_settings(config)


def _albert_tf_settings(config: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings in a config that albert_tf has written."""
    rules = get_args(DigitComma)
    if config["digit_comma"] not in rules:
        raise ValueError(
            f"digit_comma must be one of {', '.join(rules)}, not "
            f"{shown(config['digit_comma'])}"
        )
    for name in ("do_lower_case", "keep_accents", *_OWN_SETTINGS):
        if name not in config:
            raise ValueError(f"{name} is missing")
    return {
        "do_lower_case": typed(config, "do_lower_case", bool, True),
        "strip_accents": not typed(config, "keep_accents", bool, False),
        "digit_comma": config["digit_comma"],
        **{name: typed(config, name, bool, False) for name in _OWN_SETTINGS},
    }


def _hugging_face_settings(config: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings that reproduce the slow tokenizer."""
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
    _check_special_tokens(config, _SPECIAL_TOKENS)
    return {
        **HUGGING_FACE_SLOW,
        "do_lower_case": typed(config, "do_lower_case", bool, True),
        "strip_accents": not typed(config, "keep_accents", bool, False),
        "cut_at_user_defined_pieces": bool(_non_special_added_tokens(config)),
    }


def _tokenizer_json_settings(
    config: dict[str, Any], rebuilt: TokenizerJsonModel
) -> dict[str, Any]:
    """Returns the settings that reproduce a `tokenizer.json`."""
    if "digit_comma" in config:
        settings = _albert_tf_settings(config)
    else:
        if typed(config, "tokenizer_class", str) in _ANY_MODEL_CLASSES:
            config = {**config, "tokenizer_class": None}
        settings = _hugging_face_settings(config)
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
    unk_token = _content_of(config.get("unk_token") or rebuilt.unk_token)
    if unk_token != rebuilt.unk_token:
        raise ValueError(
            f"unk_token={unk_token!r}, but the unknown piece of "
            f"{TOKENIZER_JSON} is {rebuilt.unk_token!r}"
        )
    return settings


def _describe_wordpiece(tokenizer: AlbertWordPieceTokenizer) -> dict[str, Any]:
    """Returns the `tokenizer_config.json` of a tokenizer.

    transformers 4 gives the same ids if `rules` and `match_special_tokens` are
    those of `HUGGING_FACE_SLOW_WORDPIECE`.
    """
    settings = dict(tokenizer.settings)
    return {
        "tokenizer_class": "BertTokenizer",
        "do_basic_tokenize": True,
        _OUR_RULES: settings.pop("rules"),
        **settings,
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        **_WORDPIECE_TOKENS,
    }


def _wordpiece_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of `AlbertWordPieceTokenizer` for a config.

    A Hugging Face file gives the settings of its slow tokenizer.
    """
    name = typed(config, "tokenizer_class", str) or "BertTokenizer"
    if name not in _WORDPIECE_CLASSES:
        raise ValueError(
            f"tokenizer_class={name} is not supported with vocab.txt, only "
            f"{', '.join(_WORDPIECE_CLASSES)}"
        )
    if not typed(config, "do_basic_tokenize", bool, True):
        raise ValueError(
            "do_basic_tokenize=false (no splitting at punctuation) is not "
            "supported"
        )
    if config.get("never_split"):
        raise ValueError(
            f"never_split={shown(config['never_split'])} is not supported"
        )
    _check_special_tokens(config, _WORDPIECE_TOKENS, " with vocab.txt")
    settings = {
        **HUGGING_FACE_SLOW_WORDPIECE,
        "do_lower_case": typed(config, "do_lower_case", bool, True),
        "strip_accents": typed(config, "strip_accents", bool),
        "tokenize_chinese_chars": typed(
            config, "tokenize_chinese_chars", bool, True
        ),
    }
    if _OUR_RULES in config:
        rules = config[_OUR_RULES]
        if rules not in get_args(WordRules):
            raise ValueError(
                f"{_OUR_RULES} must be one of "
                f"{', '.join(get_args(WordRules))}, not {shown(rules)}"
            )
        settings["rules"] = rules
        settings["match_special_tokens"] = typed(
            config, "match_special_tokens", bool, False
        )
    return settings


def _read_config(folder: str) -> dict[str, Any]:
    """Reads the settings of a tokenizer beside its vocabulary.

    What `tokenizer_config.json` does not say is taken from `tokenizer.json`,
    from the model's `config.json` and, for special tokens, from
    `special_tokens_map.json`. If there is no `tokenizer_config.json` and none
    of them says whether text is lower-cased, a warning says that it is.
    """
    path = os.path.join(folder, SETTINGS_FILE)
    config = parse_object(read_model(path), path) if exists(path) else {}
    model, special = (
        _read_if_usable(folder, name)
        for name in (MODEL_CONFIG, _SPECIAL_TOKENS_MAP)
    )
    found = {
        **special,
        **{key: model[key] for key in _KEYS if key in model},
        **normalizer_settings(_read_if_usable(folder, TOKENIZER_JSON)),
        **config,
    }
    if not exists(path) and "do_lower_case" not in found:
        _logger.warning(
            "%s has no %s, and nothing else says whether text is lower-cased: "
            "it is, and accents are dropped, as by default in transformers; "
            "copy the file, or load the tokenizer with do_lower_case=False",
            folder,
            SETTINGS_FILE,
        )
    return found


def _read_if_usable(folder: str, name: str) -> Mapping[str, Any]:
    """Reads a file that is used only for what it says; {} if it is unusable."""
    path = os.path.join(folder, name)
    try:
        return parse_object(read_model(path), path) if exists(path) else {}
    except InputError:
        return {}


def _non_special_added_tokens(config: Mapping[str, Any]) -> set[str]:
    """Returns the added tokens that are not special tokens."""
    added = typed(config, "added_tokens_decoder", dict, {}).values()
    return set(map(_content_of, added)) - {*SPECIAL_PIECES, "<unk>"}


def _check_added_tokens(
    config: Mapping[str, Any], tokenizer: Tokenizer
) -> None:
    """Checks the added tokens, at which Hugging Face's tokenizers split text.

    They must be in the vocabulary, as special tokens are. With SentencePiece,
    all user-defined pieces may be added tokens, or none of them.
    """
    for i, token in typed(config, "added_tokens_decoder", dict, {}).items():
        token, i = _content_of(token), int(i)
        known = 0 <= i < tokenizer.vocab_size
        if not known or tokenizer.id_to_piece(i) != token:
            raise ValueError(f"the added token {shown(token)} is not supported")
    added = _non_special_added_tokens(config)
    if added and tokenizer.settings.get("cut_at_user_defined_pieces"):
        user_defined = user_defined_pieces(tokenizer.model_bytes)
        if wrong := sorted(added ^ user_defined.keys()):
            raise ValueError(
                f"{wrong[0]!r} is {'an' if wrong[0] in added else 'not an'} "
                "added token; the added tokens must be all user-defined "
                "pieces, or none of them"
            )


def _check_special_tokens(
    config: Mapping[str, Any], supported: Mapping[str, str], context: str = ""
) -> None:
    """Checks that special tokens are the supported ones, by their keys."""
    for role, piece in supported.items():
        token = _content_of(config.get(role) or piece)
        if token != piece:
            raise ValueError(
                f"{role}={token!r} is not supported{context}, only {piece}"
            )


def _content_of(token: str | Mapping[str, Any]) -> str:
    """Returns the text of a token: a string or an `AddedToken` object."""
    content = token["content"] if isinstance(token, Mapping) else token
    if not isinstance(content, str):
        raise ValueError(f"the token {shown(token)} must be a string")
    return content
