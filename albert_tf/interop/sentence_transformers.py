"""Settings of sentence-transformers, beside the files of Hugging Face."""

from __future__ import annotations

import json
import math
import pathlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypedDict, get_args

import numpy as np
import safetensors.numpy

from albert_tf.errors import InputError, shown
from albert_tf.input_files import parse_json, read_bytes, read_json
from albert_tf.interop.safetensors_file import open_safetensors
from albert_tf.schema import check_type, typed
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.tokenizer_files import SETTINGS_FILE

MODULES_FILE = "modules.json"
_LENGTH_FILE = "sentence_bert_config.json"
_SETTINGS_FILE = "config_sentence_transformers.json"
# Names of what this library has in a folder.
NAMES = re.compile(
    "|".join(map(re.escape, (MODULES_FILE, _LENGTH_FILE, _SETTINGS_FILE)))
    + r"|\d+_(Pooling|WordWeights|Normalize)"
)
_WEIGHTS_FILE = "model.safetensors"
_WEIGHTS = "emb_layer.weight"
# As releases before 6 named the classes, which later ones read, too.
_PREFIX = "sentence_transformers.models."
_Pooling = Literal["mean", "weighted_mean", "cls"]
# Pooling -> the setting in the config of a `Pooling`, which has one of these
# or, since 6.0, `pooling_mode` with our names.
_SETTINGS: dict[_Pooling, str] = {
    "mean": "pooling_mode_mean_tokens",
    "cls": "pooling_mode_cls_token",
}
# A weighted mean is that of states which a `WordWeights` multiplied.
POOLINGS: tuple[_Pooling, ...] = get_args(_Pooling)


def settings_files(
    vector_size: int,
    *,
    pooling: str,
    normalize: bool,
    max_length: int,
    tokenizer: Tokenizer,
    token_weights: np.ndarray | None = None,
) -> dict[str, str | bytes]:
    """Returns the files that make a Hugging Face folder one of this library.

    `pooling` is one of `POOLINGS`; texts are cut to `max_length` tokens. The
    weights of the tokenizer's pieces are those of a weighted mean, float32
    `[vocab_size]`.
    """
    names = ["Transformer", "Pooling"]
    if token_weights is not None:
        names.insert(1, "WordWeights")
        pooling = "mean"
    if normalize:
        names.append("Normalize")
    folders = ["", *(f"{i}_{name}" for i, name in enumerate(names) if i)]
    files: dict[str, Any] = {
        MODULES_FILE: [
            {"idx": i, "name": str(i), "path": path, "type": _PREFIX + name}
            for i, (name, path) in enumerate(zip(names, folders, strict=True))
        ],
        f"{folders[names.index('Pooling')]}/config.json": {
            "word_embedding_dimension": vector_size,
            **{name: pooling == x for x, name in _SETTINGS.items()},
        },
        _LENGTH_FILE: {"max_seq_length": max_length},
        _SETTINGS_FILE: {"similarity_fn_name": "cosine"},
    }
    texts: dict[str, str | bytes] = {
        path: json.dumps(values, indent=2) + "\n"
        for path, values in files.items()
    }
    if token_weights is None:
        return texts
    pieces = [tokenizer.id_to_piece(i) for i in range(tokenizer.vocab_size)]
    config = {
        "vocab": pieces,
        "word_weights": dict(zip(pieces, token_weights.tolist(), strict=True)),
        "unknown_word_weight": 1,
    }
    folder = folders[names.index("WordWeights")]
    return {
        **texts,
        f"{folder}/config.json": json.dumps(config) + "\n",
        f"{folder}/{_WEIGHTS_FILE}": safetensors.numpy.save(
            {_WEIGHTS: token_weights[:, None]}
        ),
    }


def stored_files(folder: pathlib.Path) -> list[str]:
    """Returns the paths of a folder's files of this library, relative to it."""
    if not (folder / MODULES_FILE).exists():
        return []
    names = [MODULES_FILE, _LENGTH_FILE, _SETTINGS_FILE]
    files = [folder / name for name in names]
    for _, part in _modules(folder):
        if part != folder and part.is_dir():
            files += sorted(part.rglob("*"))
    return [str(x.relative_to(folder)) for x in files if x.is_file()]


def has_token_weights(paths: Iterable[str]) -> bool:
    """Returns whether any of `stored_files` are those of a `WordWeights`."""
    return any(path.endswith(f"_WordWeights/{_WEIGHTS_FILE}") for path in paths)


class _Module(TypedDict):
    type: str
    path: str


def read_pooling(folder: pathlib.Path) -> _Pooling:
    """Returns the pooling of a folder with `modules.json`."""
    path = folder / MODULES_FILE
    found, is_weighted = [], False
    for name, part in _modules(folder):
        if name == "WordWeights" and not found:
            is_weighted = True
        elif name == "Pooling":
            found += _modes(read_json(part / "config.json"))
        elif name not in ("Transformer", "Normalize"):
            found.append(name)
    settings = folder / _SETTINGS_FILE
    key = "default_prompt_name"  # Of what they put before each text.
    if settings.exists() and (name := read_json(settings).get(key)):
        found.append(f"{key}={name}")
    if is_weighted:
        if found == ["mean"]:
            return "weighted_mean"
        found.append("WordWeights")
    for pooling in _SETTINGS:
        if found == [pooling]:
            return pooling
    raise InputError(
        f"{path}: {', '.join(map(shown, found)) or 'no pooling'} is not "
        f"supported, only {', '.join(POOLINGS[:-1])} or {POOLINGS[-1]} "
        "pooling; give one of them as pooling to compute that instead, or drop "
        "it with `albert convert --drop=pooling`, for means"
    )


def read_token_weights(folder: pathlib.Path | None) -> np.ndarray | None:
    """Returns the weights of a `WordWeights`, float32 `[pieces]`, or None."""
    for name, part in _modules(folder) if folder else ():
        if name == "WordWeights":
            path = part / _WEIGHTS_FILE
            file = open_safetensors(path)
            shape = file.shapes.get(_WEIGHTS, ())
            if len(shape) != 2 or shape[1] != 1:
                raise InputError(
                    f"{path}: {_WEIGHTS} has shape {list(shape)}, not "
                    "[pieces, 1]; save the model with sentence-transformers"
                )
            weights = file.read(_WEIGHTS)[:, 0].astype(np.float32)
            if not (np.isfinite(weights) & (weights >= 0)).all():
                raise InputError(
                    f"{path}: {_WEIGHTS} has weights that are negative or not "
                    "finite, of which there is no mean; give another pooling, "
                    "such as mean"
                )
            return weights
    return None


def _modules(folder: pathlib.Path) -> list[tuple[str, pathlib.Path]]:
    """Returns the class and the folder of each module in `modules.json`."""
    path = folder / MODULES_FILE
    if not path.exists():
        return []
    modules = parse_json(read_bytes(path), str(path))
    check_type(modules, list[_Module], str(path))
    found = []
    for module in modules:
        name, part = module["type"].rpartition(".")[2], module["path"]
        if part and (pathlib.PurePath(part).name != part or part == ".."):
            raise InputError(f"{path} names {shown(part)}, not a folder")
        found.append((name, folder / part))
    return found


def default_pooling(folder: pathlib.Path | None) -> _Pooling:
    """Returns the pooling of `Checkpoint.folder`; "mean" if it names none."""
    if folder is None or not (folder / MODULES_FILE).exists():
        return "mean"
    return read_pooling(folder)


def default_length(folder: pathlib.Path | None, longest: int) -> int:
    """Returns the length of `Checkpoint.folder`, or `longest` if it is less."""
    if folder is None or not (folder / MODULES_FILE).exists():
        return longest
    return int(min(longest, read_max_length(folder)))


def _modes(config: Mapping[str, Any]) -> list[Any]:
    """Returns the poolings in the config of a `Pooling`."""
    modes = config.get("pooling_mode")
    if modes is None:
        names = {setting: name for name, setting in _SETTINGS.items()}
        modes = [
            names.get(setting, setting)
            for setting, value in config.items()
            if setting.startswith("pooling_mode_") and value is True
        ]
    return modes if isinstance(modes, list) else [modes]


def check_case(folder: pathlib.Path | None, lower_cases: bool) -> None:
    """Checks that texts are lower-cased by the tokenizer, if they are at all.

    sentence-transformers can do it before a tokenizer that keeps upper case.

    Args:
      folder: that of the model, or None.
      lower_cases: whether its tokenizer does.

    Raises:
      InputError: if the folder says so, and the tokenizer does not.
    """
    path = folder and folder / _LENGTH_FILE
    if lower_cases or path is None or not path.exists():
        return
    if typed(read_json(path), "do_lower_case", bool, None, str(path)):
        raise InputError(
            f"{path}: do_lower_case is true, but the tokenizer keeps upper "
            f"case; set do_lower_case in {SETTINGS_FILE} instead"
        )


def read_max_length(folder: pathlib.Path) -> float:
    """Returns the length that texts are cut to, infinite if not known."""
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
