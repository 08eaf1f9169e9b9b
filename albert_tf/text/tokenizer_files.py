"""The files with which a tokenizer travels: records, runs and models."""

from __future__ import annotations

import json
import os
from typing import Any, get_args

from albert_tf.errors import InputError
from albert_tf.text.digit_comma import DigitComma
from albert_tf.text.tokenizer import AlbertTokenizer

MODEL_FILE = "spiece.model"
SETTINGS_FILE = "tokenizer_config.json"
_HUGGING_FACE_CONFIG = "config.json"

_TOKENIZER_CLASSES = ("AlbertTokenizer", "AlbertTokenizerFast")
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
}
# Settings that 0.1.0 did not write, and did not have.
_ADDED_SETTINGS = (
    "replace_latex_quotes",
    "lower_characters_first",
    "match_special_tokens",
)


def tokenizer_files(
    tokenizer: AlbertTokenizer, *, max_length: int | None = None
) -> dict[str, bytes]:
    """Returns name -> content: the model and its settings.

    The names, and the keys that Hugging Face has, are Hugging Face's.
    transformers 4 also does as the settings say if they are
    `HUGGING_FACE_SLOW`, with any `do_lower_case` and `strip_accents`.

    Args:
      tokenizer: the tokenizer.
      max_length: the longest row that the model takes, if known.
    """
    settings = dict(tokenizer.settings)
    described = {
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
    if max_length is not None:
        described["model_max_length"] = max_length
    return {
        MODEL_FILE: tokenizer.model_bytes,
        SETTINGS_FILE: (json.dumps(described, indent=2) + "\n").encode(),
    }


def load_tokenizer(folder: str | os.PathLike[str]) -> AlbertTokenizer:
    """Loads the tokenizer of a folder of records, a run or a model.

    A folder without our settings, but with Hugging Face's `config.json` or
    `tokenizer_config.json`, is one of Hugging Face's: its tokenizer then does
    as the slow one of transformers 4 does with that folder.

    Raises:
      InputError: a file is missing, is not what it should be, or asks for what
        is not supported.
    """
    # Only here: pure Python text code needs no TensorFlow.
    from tensorflow.io import gfile

    folder = os.fspath(folder)
    path = os.path.join(folder, SETTINGS_FILE)
    model = os.path.join(folder, MODEL_FILE)
    if gfile.exists(path):
        with gfile.GFile(path) as file:
            text = file.read()
        try:
            settings = _settings(json.loads(text))
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{path} does not describe a tokenizer: {error}"
            ) from None
    elif gfile.exists(model) and gfile.exists(
        os.path.join(folder, _HUGGING_FACE_CONFIG)
    ):
        settings = HUGGING_FACE_SLOW
    else:
        raise InputError(f"{folder} holds no tokenizer: no {SETTINGS_FILE}")
    return AlbertTokenizer.from_file(model, **settings)


def _settings(described: object) -> dict[str, Any]:
    """Returns our keyword arguments for a `tokenizer_config.json`."""
    if not isinstance(described, dict):
        raise TypeError("no JSON object")
    if "digit_comma" not in described:
        return _settings_of_hugging_face(described)
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
        token = _content(described.get(role) or piece)
        if token != piece:
            raise ValueError(f"{role}={token!r} is not supported, only {piece}")
    for token in map(
        _content, described.get("added_tokens_decoder", {}).values()
    ):
        if token not in _SPECIAL_TOKENS.values():
            raise ValueError(f"the added token {token!r} is not supported")
    return {
        **HUGGING_FACE_SLOW,
        "do_lower_case": bool(described.get("do_lower_case", True)),
        "strip_accents": not described.get("keep_accents", False),
    }


def _content(token: str | dict[str, Any]) -> str:
    """Returns a token's spelling; it may be written with its properties."""
    return token["content"] if isinstance(token, dict) else token
