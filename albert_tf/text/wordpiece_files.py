"""A WordPiece tokenizer's `tokenizer_config.json`, as of `BertTokenizer`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from albert_tf.text.word_splitter import WordRules
from albert_tf.text.wordpiece_tokenizer import WordPieceTokenizer

# What Hugging Face's slow `BertTokenizer` (transformers to 4.57) does, as
# keyword arguments of ours; its three options keep their defaults. One thing is
# not done: in cased text, "[MA\u00adSK]" is [MASK] to it, since it looks for
# special tokens again after it has dropped the soft hyphen.
HUGGING_FACE_SLOW_WORDPIECE = {
    "do_lower_case": True,
    "strip_accents": None,
    "tokenize_chinese_chars": True,
    "rules": "hugging_face",
    "match_special_tokens": True,
}

# Community checkpoints of ALBERT with a `vocab.txt` name either.
_TOKENIZER_CLASSES = (
    "BertTokenizer",
    "BertTokenizerFast",
    "AlbertTokenizer",
    "AlbertTokenizerFast",
)
_SPECIAL_TOKENS = {
    "unk_token": "[UNK]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
}
_OUR_RULES = "word_rules"  # the key that tells our files from theirs


def describe_wordpiece(tokenizer: WordPieceTokenizer) -> dict[str, Any]:
    """Returns what a `tokenizer_config.json` says of a tokenizer.

    transformers 4 does as the settings say if they are
    `HUGGING_FACE_SLOW_WORDPIECE`, with any of the first three.
    """
    settings = dict(tokenizer.settings)
    return {
        "tokenizer_class": "BertTokenizer",
        "do_basic_tokenize": True,
        _OUR_RULES: settings.pop("rules"),
        **settings,
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        **_SPECIAL_TOKENS,
    }


def wordpiece_settings(described: Mapping[str, Any]) -> dict[str, Any]:
    """Returns our keyword arguments for a `tokenizer_config.json`.

    Args:
      described: what the file holds: ours, or Hugging Face's, which gives the
        settings of its slow tokenizer.

    Raises:
      ValueError: it asks for what is not supported.
    """
    if not isinstance(described, Mapping):
        raise TypeError("no JSON object")
    name = described.get("tokenizer_class") or "BertTokenizer"
    if name not in _TOKENIZER_CLASSES:
        raise ValueError(
            f"tokenizer_class={name} is not supported with vocab.txt, only "
            f"{', '.join(_TOKENIZER_CLASSES)}"
        )
    if not described.get("do_basic_tokenize", True):
        raise ValueError(
            "do_basic_tokenize=false (words are not cut at punctuation) is not "
            "supported"
        )
    if described.get("never_split"):
        raise ValueError(
            f"never_split={described['never_split']} is not supported"
        )
    for role, piece in _SPECIAL_TOKENS.items():
        token = described.get(role) or piece
        # A token may be written with its properties.
        token = token["content"] if isinstance(token, dict) else token
        if token != piece:
            raise ValueError(
                f"{role}={token!r} is not supported with vocab.txt, only "
                f"{piece}"
            )
    strip_accents = described.get("strip_accents")
    settings = {
        **HUGGING_FACE_SLOW_WORDPIECE,
        "do_lower_case": bool(described.get("do_lower_case", True)),
        "strip_accents": None if strip_accents is None else bool(strip_accents),
        "tokenize_chinese_chars": bool(
            described.get("tokenize_chinese_chars", True)
        ),
    }
    if _OUR_RULES in described:
        rules = described[_OUR_RULES]
        if rules not in get_args(WordRules):
            raise ValueError(
                f"{_OUR_RULES} must be one of "
                f"{', '.join(get_args(WordRules))}, not {rules}"
            )
        settings["rules"] = rules
        settings["match_special_tokens"] = bool(
            described.get("match_special_tokens", False)
        )
    return settings
