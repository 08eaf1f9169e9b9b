"""Hugging Face's `tokenizer_config.json`, and what says what it does not."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

from albert_tf.errors import InputError
from albert_tf.files import exists
from albert_tf.input_files import parse_object
from albert_tf.text.tokenizer_json import TOKENIZER_JSON
from albert_tf.text.tokenizer_json_reader import normalizer_settings
from albert_tf.text.vocabulary_file import read_model

_logger = logging.getLogger(__name__)

SETTINGS_FILE = "tokenizer_config.json"
MODEL_CONFIG = "config.json"
_SPECIAL_TOKENS = "special_tokens_map.json"
# Settings that change the ids of ordinary text.
_KEYS = (
    "do_lower_case",
    "keep_accents",
    "strip_accents",
    "tokenize_chinese_chars",
)


def read_config(folder: str) -> dict[str, Any]:
    """Reads the settings of a tokenizer beside its vocabulary.

    What `tokenizer_config.json` does not say is taken from `tokenizer.json`,
    from the model's `config.json` and, for special tokens, from
    `special_tokens_map.json`. If there is no `tokenizer_config.json` and none
    of them says whether text is lower-cased, a warning says that it is.

    Raises:
      InputError: if `tokenizer_config.json` is damaged.
    """
    path = os.path.join(folder, SETTINGS_FILE)
    config = parse_object(read_model(path), path) if exists(path) else {}
    model, special = (
        _read(folder, name) for name in (MODEL_CONFIG, _SPECIAL_TOKENS)
    )
    found = {
        **special,
        **{key: model[key] for key in _KEYS if key in model},
        **normalizer_settings(_read(folder, TOKENIZER_JSON)),
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


def _read(folder: str, name: str) -> Mapping[str, Any]:
    """Reads a file that is used only for what it says; {} if it is unusable."""
    path = os.path.join(folder, name)
    try:
        return parse_object(read_model(path), path) if exists(path) else {}
    except InputError:
        return {}
