"""Settings of sentence-transformers, beside the files of Hugging Face."""

from __future__ import annotations

import json
import math
import pathlib
from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from albert_tf.errors import InputError
from albert_tf.input_files import parse_json, read_bytes, read_json, shown
from albert_tf.schema import check_type, typed
from albert_tf.text.tokenizer_files import SETTINGS_FILE

MODULES_FILE = "modules.json"
_LENGTH_FILE = "sentence_bert_config.json"
_SETTINGS_FILE = "config_sentence_transformers.json"
_POOLING_FOLDER = "1_Pooling"
_NORMALIZE_FOLDER = "2_Normalize"
# As releases before 6 named the classes, which later ones read, too.
_PREFIX = "sentence_transformers.models."
_Pooling = Literal["mean", "cls"]
# Pooling -> the setting in `1_Pooling/config.json`, which has one of these or,
# since 6.0, `pooling_mode` with our names.
POOLINGS: dict[_Pooling, str] = {
    "mean": "pooling_mode_mean_tokens",
    "cls": "pooling_mode_cls_token",
}


def settings_files(
    vector_size: int, *, pooling: str, normalize: bool, max_length: int
) -> dict[str, str]:
    """Returns the files that make a Hugging Face folder one of this library.

    Args:
      vector_size: number of values of a vector.
      pooling: one of `POOLINGS`.
      normalize: whether vectors are scaled to length 1.
      max_length: number of tokens that texts are cut to.

    Returns:
      Path in the folder -> content.
    """
    modules = {"Transformer": "", "Pooling": _POOLING_FOLDER}
    if normalize:
        modules["Normalize"] = _NORMALIZE_FOLDER
    files: dict[str, Any] = {
        MODULES_FILE: [
            {"idx": i, "name": str(i), "path": path, "type": _PREFIX + name}
            for i, (name, path) in enumerate(modules.items())
        ],
        f"{_POOLING_FOLDER}/config.json": {
            "word_embedding_dimension": vector_size,
            **{name: pooling == x for x, name in POOLINGS.items()},
        },
        _LENGTH_FILE: {"max_seq_length": max_length},
        _SETTINGS_FILE: {"similarity_fn_name": "cosine"},
    }
    return {
        path: json.dumps(values, indent=2) + "\n"
        for path, values in files.items()
    }


class _Module(TypedDict):
    type: str
    path: str


def read_pooling(folder: pathlib.Path) -> _Pooling:
    """Returns the pooling of a folder with `modules.json`.

    Raises:
      InputError: if a file cannot be read, or the model computes something else
        than one of `POOLINGS`.
    """
    path = folder / MODULES_FILE
    modules = parse_json(read_bytes(path), str(path))
    check_type(modules, list[_Module], str(path))
    found = []
    for module in modules:
        name = module["type"].rpartition(".")[2]
        if name == "Pooling":
            part = module["path"]
            if pathlib.PurePath(part).name != part or part == "..":
                raise InputError(f"{path} names {shown(part)}, not a folder")
            found += _modes(read_json(folder / part / "config.json"))
        elif name not in ("Transformer", "Normalize"):
            found.append(name)
    settings = folder / _SETTINGS_FILE
    key = "default_prompt_name"  # Of what they put before each text.
    if settings.exists() and (name := read_json(settings).get(key)):
        found.append(f"{key}={name}")
    for pooling in POOLINGS:
        if found == [pooling]:
            return pooling
    raise InputError(
        f"{path}: {', '.join(map(shown, found)) or 'no pooling'} is not "
        f"supported, only {' or '.join(POOLINGS)} pooling; give one of them as "
        "pooling to compute that instead"
    )


def default_pooling(folder: pathlib.Path) -> _Pooling:
    """Returns the pooling of any model's folder; "mean" if it names none."""
    has_modules = (folder / MODULES_FILE).exists()
    return read_pooling(folder) if has_modules else "mean"


def _modes(config: Mapping[str, Any]) -> list[Any]:
    """Returns the poolings in the config of a `Pooling`."""
    modes = config.get("pooling_mode")
    if modes is None:
        names = {setting: name for name, setting in POOLINGS.items()}
        modes = [
            names.get(setting, setting)
            for setting, value in config.items()
            if setting.startswith("pooling_mode_") and value is True
        ]
    return modes if isinstance(modes, list) else [modes]


def read_max_length(folder: pathlib.Path) -> float:
    """Returns the length that texts are cut to, infinite if it is not known.

    Raises:
      InputError: if a file cannot be read, or the length is less than 2.
    """
    for name, key in (
        (_LENGTH_FILE, "max_seq_length"),
        (SETTINGS_FILE, "model_max_length"),
    ):
        path = folder / name
        if path.exists():
            length = typed(read_json(path), key, float, None, str(path))
            if length is not None:
                if length < 2:
                    raise InputError(
                        f"{path}: {key}={length} must be at least 2, to hold "
                        "[CLS] and [SEP]"
                    )
                return length
    return math.inf
