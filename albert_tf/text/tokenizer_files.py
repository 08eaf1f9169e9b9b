"""The files with which a tokenizer travels: records, runs and models."""

from __future__ import annotations

import json
import os

from albert_tf.errors import InputError
from albert_tf.text.tokenizer import AlbertTokenizer

MODEL_FILE = "spiece.model"
SETTINGS_FILE = "tokenizer_config.json"


def tokenizer_files(tokenizer: AlbertTokenizer) -> dict[str, bytes]:
    """Returns name -> content: the model and its settings.

    The names, and the keys that Hugging Face has, are Hugging Face's.
    """
    settings = {
        "tokenizer_class": "AlbertTokenizer",
        "do_lower_case": tokenizer.normalizer.do_lower_case,
        "keep_accents": not tokenizer.normalizer.strip_accents,
        "digit_comma": tokenizer.digit_comma,
    }
    return {
        MODEL_FILE: tokenizer.model_bytes,
        SETTINGS_FILE: (json.dumps(settings, indent=2) + "\n").encode(),
    }


def load_tokenizer(folder: str | os.PathLike[str]) -> AlbertTokenizer:
    """Loads the tokenizer of a folder of records, a run or a model.

    Raises:
      InputError: a file is missing or is not what it should be.
    """
    # Only here: pure Python text code needs no TensorFlow.
    from tensorflow.io import gfile

    folder = os.fspath(folder)
    path = os.path.join(folder, SETTINGS_FILE)
    if not gfile.exists(path):
        raise InputError(f"{folder} holds no tokenizer: no {SETTINGS_FILE}")
    with gfile.GFile(path) as file:
        text = file.read()
    try:
        settings = json.loads(text)
        options = {
            "do_lower_case": bool(settings["do_lower_case"]),
            "strip_accents": not settings["keep_accents"],
            "digit_comma": settings.get("digit_comma", "google"),
        }
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} does not describe a tokenizer: {error}"
        ) from None
    return AlbertTokenizer.from_file(
        os.path.join(folder, MODEL_FILE), **options
    )
