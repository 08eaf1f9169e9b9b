"""Tokenizer files in the folders of records, runs and models."""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Iterator, Mapping
from typing import Any

from albert_tf.errors import InputError
from albert_tf.files import local_path, output_folder, write_together
from albert_tf.input_files import exists, read_bytes, read_json
from albert_tf.schema import typed
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.tokenizer_config import (
    check_added_tokens,
    check_in_vocabulary,
    describe,
    tokenizer_settings,
    wordpiece_settings,
)
from albert_tf.text.tokenizer_json import (
    TOKENIZER_JSON,
    has_tokenizer_json,
    tokenizer_json,
)
from albert_tf.text.tokenizer_json_reader import (
    normalizer_settings,
    read_tokenizer_json,
)
from albert_tf.text.vocabulary_file import read_model
from albert_tf.text.wordpiece_tokenizer import AlbertWordPieceTokenizer

_logger = logging.getLogger(__name__)

SETTINGS_FILE = "tokenizer_config.json"
MODEL_CONFIG = "config.json"
_SPECIAL_TOKENS_MAP = "special_tokens_map.json"
_ADDED_TOKENS = "added_tokens.json"
# Settings that change the ids of ordinary text.
_KEYS = (
    "do_lower_case",
    "keep_accents",
    "strip_accents",
    "tokenize_chinese_chars",
)

MODEL_FILE = AlbertTokenizer.file_name
WORDPIECE_FILE = AlbertWordPieceTokenizer.file_name

# Names of the files of a tokenizer.
TOKENIZER_FILES = frozenset(
    (
        SETTINGS_FILE,
        MODEL_FILE,
        WORDPIECE_FILE,
        TOKENIZER_JSON,
        _SPECIAL_TOKENS_MAP,
        _ADDED_TOKENS,
    )
)

# A key of albert_tf only: the SHA-256 of the vocabulary file.
_FINGERPRINT = "vocabulary_sha256"
# A longer one is taken as unknown.
_LARGEST_LENGTH = 1 << 20


def tokenizer_files(
    tokenizer: Tokenizer, *, max_length: int | None = None
) -> dict[str, bytes]:
    """Returns the files of a tokenizer, as a dict from name to content.

    Names and keys are Hugging Face's. transformers 4 gives the same ids if the
    settings are `HUGGING_FACE_SLOW`, apart from `do_lower_case` and
    `strip_accents`. `max_length` is that of the model, if known.
    """
    config = describe(tokenizer)
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
    """Returns `tokenizer_files`, and the `tokenizer.json` of transformers 5.

    It is left out for the few vocabularies that it cannot express.
    """
    files = tokenizer_files(tokenizer, max_length=max_length)
    # transformers 5 builds the right one from a vocab.txt itself.
    if isinstance(tokenizer, AlbertTokenizer) and has_tokenizer_json(tokenizer):
        files[TOKENIZER_JSON] = tokenizer_json(tokenizer)
    return files


def save_tokenizer(
    tokenizer: Tokenizer, folder: str | os.PathLike[str]
) -> None:
    """Writes `huggingface_files`; see `Tokenizer.save_pretrained`."""
    folder = os.fspath(local_path(folder))
    names = [
        name
        for name in (MODEL_FILE, WORDPIECE_FILE, TOKENIZER_JSON)
        if exists(os.path.join(folder, name))
    ]
    if len(names) > 1 and TOKENIZER_JSON in names:
        names.remove(TOKENIZER_JSON)  # It has the pieces of the other one.
    for name in names:
        path = os.path.join(folder, name)
        if not _is_vocabulary_of(tokenizer, path):
            raise InputError(
                f"{path} is another vocabulary, which would be replaced; save "
                "the tokenizer to another folder"
            )
    files = huggingface_files(tokenizer, max_length=tokenizer.model_max_length)
    with output_folder(folder):
        write_together(
            {os.path.join(folder, name): x for name, x in files.items()}
        )


def _is_vocabulary_of(tokenizer: Tokenizer, path: str) -> bool:
    name = os.path.basename(path)
    content = read_bytes(path)
    if name == TOKENIZER_JSON:
        try:
            content = read_tokenizer_json(content, path).model_bytes
        except InputError:
            return False
        name = MODEL_FILE
    return name == tokenizer.file_name and content == tokenizer.model_bytes


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
    library: Mapping[str, Any] = {}
    if rebuilt:
        config = read_json(path) if exists(path) else {}
    elif exists(path) or (
        exists(model)
        and (exists(os.path.join(folder, MODEL_CONFIG)) or exists(json_file))
    ):
        library = _read_if_usable(folder, TOKENIZER_JSON)
        config = _read_config(folder, library)
    else:
        raise InputError(f"{folder}: no tokenizer found (no {SETTINGS_FILE})")
    with _config_errors(path):
        if tokenizer_class is AlbertWordPieceTokenizer:
            settings = wordpiece_settings(config)
        else:
            settings = tokenizer_settings(config, rebuilt)
    if rebuilt:
        tokenizer = AlbertTokenizer(
            rebuilt.model_bytes, name=json_file, **settings
        )
    else:
        tokenizer = tokenizer_class.from_file(model, **settings)
    with _config_errors(path):
        check_added_tokens(config, tokenizer)
        saved = typed(config, _FINGERPRINT, str)
        if saved not in (None, tokenizer.fingerprint) and not rebuilt:
            raise ValueError(
                f"{tokenizer.file_name} is not the vocabulary that was saved "
                f"(its SHA-256 is not {_FINGERPRINT}); copy it again"
            )
        length = typed(config, "model_max_length", float)
        if length is not None and length < 2:
            raise ValueError(f"model_max_length={length} must be at least 2")
    ids = _read_if_usable(folder, _ADDED_TOKENS)  # of transformers 4
    with _config_errors(os.path.join(folder, _ADDED_TOKENS)):
        check_in_vocabulary(((i, x) for x, i in ids.items()), tokenizer)
    with _config_errors(json_file):
        listed = typed(library, "added_tokens", list, [])
        check_in_vocabulary(((x["id"], x) for x in listed), tokenizer)
    # transformers writes 1e30 where it does not know the length.
    if length is None or length > _LARGEST_LENGTH:
        return tokenizer
    return tokenizer.with_max_length(int(length))


@contextlib.contextmanager
def _config_errors(path: str) -> Iterator[None]:
    """Converts errors to an `InputError` that names the config file."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path}: not a valid tokenizer config: {error}"
        ) from None


def _read_config(folder: str, library: Mapping[str, Any]) -> dict[str, Any]:
    """Reads the settings of a tokenizer beside its vocabulary.

    What `tokenizer_config.json` does not say is taken from `tokenizer.json`
    (`library`), from the model's `config.json` and, for special tokens, from
    `special_tokens_map.json`. If there is no `tokenizer_config.json` and none
    of them says whether text is lower-cased, a warning says that it is.
    """
    path = os.path.join(folder, SETTINGS_FILE)
    config = read_json(path) if exists(path) else {}
    model, special = (
        _read_if_usable(folder, name)
        for name in (MODEL_CONFIG, _SPECIAL_TOKENS_MAP)
    )
    found = {
        **special,
        **{key: model[key] for key in _KEYS if key in model},
        **normalizer_settings(library),
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
        return read_json(path) if exists(path) else {}
    except InputError:
        return {}
