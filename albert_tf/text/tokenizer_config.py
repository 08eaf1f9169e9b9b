"""Settings of tokenizers in a `tokenizer_config.json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from albert_tf.errors import InputError, shown
from albert_tf.schema import typed
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.normalizer import CASE_SETTINGS
from albert_tf.text.sentencepiece_model import (
    SPECIAL_PIECES,
    DigitComma,
    user_defined_pieces,
)
from albert_tf.text.tokenizer_json import TOKENIZER_JSON
from albert_tf.text.tokenizer_json_reader import TokenizerJsonModel
from albert_tf.text.word_splitter import WordRules
from albert_tf.text.wordpiece_tokenizer import AlbertWordPieceTokenizer

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


def describe(tokenizer: Tokenizer) -> dict[str, Any]:
    """Returns the `tokenizer_config.json` of a tokenizer."""
    if isinstance(tokenizer, AlbertWordPieceTokenizer):
        return _describe_wordpiece(tokenizer)
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


def tokenizer_settings(
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
    rule = _rule(config, "digit_comma", DigitComma)
    for name in ("do_lower_case", "keep_accents", *_OWN_SETTINGS):
        if name not in config:
            raise ValueError(f"{name} is missing")
    return {
        "do_lower_case": typed(config, "do_lower_case", bool, True),
        "strip_accents": not typed(config, "keep_accents", bool, False),
        "digit_comma": rule,
        **{name: typed(config, name, bool, False) for name in _OWN_SETTINGS},
    }


def _hugging_face_settings(config: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings that reproduce the slow tokenizer."""
    _check_class(config, _TOKENIZER_CLASSES)
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


def wordpiece_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of `AlbertWordPieceTokenizer` for a config.

    A Hugging Face file gives the settings of its slow tokenizer.
    """
    _check_class(config, _WORDPIECE_CLASSES, " with vocab.txt")
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
        settings["rules"] = _rule(config, _OUR_RULES, WordRules)
        settings["match_special_tokens"] = typed(
            config, "match_special_tokens", bool, False
        )
    return settings


def _non_special_added_tokens(config: Mapping[str, Any]) -> set[str]:
    """Returns the added tokens that are not special tokens."""
    added = typed(config, "added_tokens_decoder", dict, {}).values()
    return set(map(_content_of, added)) - {*SPECIAL_PIECES, "<unk>"}


def check_added_tokens(config: Mapping[str, Any], tokenizer: Tokenizer) -> None:
    """Checks the added tokens, at which Hugging Face's tokenizers split text.

    They must be in the vocabulary, as special tokens are. With SentencePiece,
    all user-defined pieces may be added tokens, or none of them.
    """
    decoder = typed(config, "added_tokens_decoder", dict, {})
    check_in_vocabulary(decoder.items(), tokenizer)
    added = _non_special_added_tokens(config)
    if added and tokenizer.settings.get("cut_at_user_defined_pieces"):
        user_defined = user_defined_pieces(tokenizer.model_bytes)
        if wrong := sorted(added ^ user_defined.keys()):
            raise ValueError(
                f"{wrong[0]!r} is {'an' if wrong[0] in added else 'not an'} "
                "added token; the added tokens must be all user-defined "
                "pieces, or none of them"
            )


def check_in_vocabulary(
    tokens: Iterable[tuple[Any, Any]], tokenizer: Tokenizer
) -> None:
    """Checks that added tokens, given with their ids, are in the vocabulary."""
    for i, token in tokens:
        token, i = _content_of(token), int(i)
        known = 0 <= i < tokenizer.vocab_size
        if not known or tokenizer.id_to_piece(i) != token:
            raise ValueError(
                f"the added token {shown(token)} is not in the vocabulary, "
                "which is not supported"
            )


def _rule(config: Mapping[str, Any], name: str, rules: Any) -> str:
    """Returns a value of a config that is one of a `Literal`."""
    if config[name] not in get_args(rules):
        raise ValueError(
            f"{name}={shown(config[name])} must be one of "
            f"{', '.join(get_args(rules))}"
        )
    return config[name]


def _check_class(
    config: Mapping[str, Any], supported: Sequence[str], context: str = ""
) -> None:
    """Checks the class of the tokenizer, which may be missing."""
    name = typed(config, "tokenizer_class", str)
    if name and name not in supported:
        raise ValueError(
            f"tokenizer_class={name} is not supported{context}, only "
            f"{', '.join(supported)}"
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
