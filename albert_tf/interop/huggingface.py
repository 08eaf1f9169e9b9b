"""Hugging Face's format, which is also that of `save_pretrained`."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError, shown
from albert_tf.input_files import read_json
from albert_tf.interop.checkpoint import (
    Checkpoint,
    LazyArrays,
    OpenOptions,
    folder_vocabulary,
)
from albert_tf.interop.config_files import (
    HF_ARCHITECTURES,
    MULTI_LABEL,
    OUR_MODEL_TYPE,
    config_from_huggingface,
    config_to_huggingface,
    head_from_huggingface,
)
from albert_tf.interop.file_types import TensorFile, explain_bad_file, file_kind
from albert_tf.interop.matching import match_tensors
from albert_tf.interop.names import LABEL_HEADS
from albert_tf.interop.safetensors_file import (
    open_safetensors,
    save_safetensors,
)
from albert_tf.interop.torch_file import open_torch_file
from albert_tf.schema import typed
from albert_tf.text.tokenizer_files import huggingface_files

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
# Heads of a pretraining objective that no other system has.
OBJECTIVE_FILE = "objective.safetensors"
TORCH_FILE = "pytorch_model.bin"
# What weights are written as; they are read as float32.
DTYPES = ("float32", "float16", "bfloat16")
_INDEX = ".index.json"  # suffix of the index of sharded weights


def find_weights(folder: pathlib.Path) -> pathlib.Path | None:
    """Returns the weights file or index in a folder, or None.

    safetensors are preferred. A file of another name is used if it is the only
    one.
    """
    for name in (WEIGHTS_FILE, TORCH_FILE):
        for path in (folder / name, folder / (name + _INDEX)):
            if path.exists():
                return path
    others = sorted([*folder.glob("*.safetensors"), *folder.glob("*.bin")])
    others = [path for path in others if path.name != "training_args.bin"]
    return others[0] if len(others) == 1 else None


def open_huggingface(path: pathlib.Path, options: OpenOptions) -> Checkpoint:
    """Opens a folder, or a weights file with its config beside it.

    A head declared in the config takes precedence over that of `options`.
    """
    folder = path if path.is_dir() else path.parent
    weights = find_weights(folder) if path.is_dir() else path
    if weights is None:
        raise InputError(
            f"{folder} has a {CONFIG_FILE}, but no {WEIGHTS_FILE} or "
            f"{TORCH_FILE}"
        )
    config_file = folder / CONFIG_FILE
    if not config_file.exists():
        raise InputError(f"{weights} has no {CONFIG_FILE} beside it")
    values = read_json(config_file)
    if "model_type" in values or "architectures" in values:
        config = config_from_huggingface(values, str(config_file))
    else:
        config = AlbertConfig.from_dict(values, f"config file {config_file}")
    config = config.replace(**options.overrides)
    declared, settings = head_from_huggingface(values, str(config_file))
    file = _open_weights(weights)
    head = declared or options.head
    matched = match_tensors("huggingface", file, config, head=head)
    num_labels, labels = matched.head.num_labels, settings.labels
    if num_labels != len(labels or ()):
        labels = None
    objective = folder / OBJECTIVE_FILE
    heads = open_safetensors(objective) if objective.exists() else None
    source = str(config_file)
    name = typed(values, "objective", str, source=source)
    given = typed(values, "objective_settings", dict, {}, source)
    return dataclasses.replace(
        matched,
        objective_arrays=LazyArrays(heads.shapes, heads.read) if heads else {},
        objective=(
            {"objective": name, "objective_settings": given} if name else {}
        ),
        head=dataclasses.replace(
            settings, num_labels=num_labels, labels=labels
        ),
        vocabulary=folder_vocabulary(folder, "huggingface"),
        source=str(path),
        folder=folder,
        format=f"Hugging Face, {file.kind}",
        missing_head=declared if declared not in matched.components else None,
    )


def write_huggingface(
    checkpoint: Checkpoint,
    folder: pathlib.Path,
    on_tensor=None,
    dtype: str = "float32",
) -> None:
    """Writes a folder that transformers opens; see `convert.WRITERS`.

    A joint span head, a pair head and `sharing` other than "all", which
    transformers does not have, are written in the same naming scheme, the last
    such that transformers rejects the folder.
    """
    if dtype not in DTYPES:
        raise InputError(f"dtype={dtype!r} must be one of {', '.join(DTYPES)}")
    tokenizer = checkpoint.tokenizer
    values = huggingface_config(checkpoint, dtype)
    if tokenizer is not None:
        longest = checkpoint.config.num_trained_positions
        files = huggingface_files(tokenizer, max_length=longest)
        for name, content in files.items():
            (folder / name).write_bytes(content)
    ours_only = values["model_type"] == OUR_MODEL_TYPE
    save_safetensors(
        _rounded(_named_tensors(checkpoint, on_tensor), dtype),
        folder / WEIGHTS_FILE,
        # transformers 4 rejects files whose format is not "pt".
        {"format": OUR_MODEL_TYPE if ours_only else "pt"},
    )
    if checkpoint.objective_arrays:
        arrays = _rounded(checkpoint.objective_arrays, dtype)
        save_safetensors(arrays, folder / OBJECTIVE_FILE, {"format": "pt"})
    (folder / CONFIG_FILE).write_text(config_text(values), encoding="utf-8")


def huggingface_config(
    checkpoint: Checkpoint, dtype: str = "float32"
) -> dict[str, Any]:
    """Returns the values of `config.json` for a checkpoint.

    `dtype` is what the weights, which are not read, are stored as.
    """
    tokenizer = checkpoint.tokenizer
    values = {
        "architectures": [architecture(checkpoint.components)],
        **config_to_huggingface(checkpoint.config),
        "classifier_dropout_prob": checkpoint.head.dropout,
        "pad_token_id": tokenizer.pad_id if tokenizer else 0,
        "bos_token_id": tokenizer.cls_id if tokenizer else 2,
        "eos_token_id": tokenizer.sep_id if tokenizer else 3,
        "tie_word_embeddings": True,
        "dtype": dtype,
        **checkpoint.objective,
    }
    if {*LABEL_HEADS} & checkpoint.components:
        labels = checkpoint.head.labels or tuple(
            f"LABEL_{i}" for i in range(checkpoint.head.num_labels)
        )
        values["id2label"] = {str(i): label for i, label in enumerate(labels)}
        values["label2id"] = {label: i for i, label in enumerate(labels)}
        if checkpoint.head.multi_label:
            values["problem_type"] = MULTI_LABEL
        elif checkpoint.head.num_labels == 1:
            values["problem_type"] = "regression"
    return values


def config_text(values: Mapping[str, Any]) -> str:
    """Returns the text of a `config.json`."""
    return json.dumps(dict(sorted(values.items())), indent=2) + "\n"


def architecture(components: frozenset[str]) -> str:
    """Returns the name of transformers' class with these components."""
    for name, head in HF_ARCHITECTURES.items():
        if head in components:
            return name
    return "AlbertModel"


def _named_tensors(checkpoint: Checkpoint, on_tensor) -> dict[str, np.ndarray]:
    is_encoder = architecture(checkpoint.components) == "AlbertModel"
    prefix = "" if is_encoder else "albert."
    tensors = {}
    for name, array in checkpoint.tensors_for("huggingface", on_tensor):
        if name.startswith("albert."):
            name = prefix + name.removeprefix("albert.")
        tensors[name] = array
    return tensors


def _rounded(
    tensors: Mapping[str, np.ndarray], dtype: str
) -> dict[str, np.ndarray]:
    """Converts tensors to `dtype`, in whose range finite numbers must be."""
    rounded = {}
    for name, array in tensors.items():
        if array.dtype == dtype:
            rounded[name] = array
            continue
        with np.errstate(over="ignore"):
            rounded[name] = array.astype(dtype)
        if (np.isfinite(array) & ~np.isfinite(rounded[name])).any():
            largest = np.abs(array[np.isfinite(array)]).max()
            raise InputError(
                f"dtype={dtype}: {name} has numbers up to {largest:.6g}, out "
                f"of the range of {dtype}; use float32"
            )
    return rounded


def _open_weights(weights: pathlib.Path) -> TensorFile:
    if weights.name.endswith(_INDEX):
        return _open_shards(weights)
    kind = file_kind(weights)
    if kind == "safetensors":
        return open_safetensors(weights)
    if kind in ("torch_zip", "torch_legacy"):
        return open_torch_file(weights)
    is_torch = weights.suffix in (".bin", ".pt", ".pth")
    explain_bad_file(weights, "torch_zip" if is_torch else "safetensors")


def _open_shards(index: pathlib.Path) -> TensorFile:
    """Opens the files listed in an index as one."""
    listed = typed(read_json(index), "weight_map", dict, None, str(index))
    if not listed or not all(isinstance(x, str) for x in listed.values()):
        raise InputError(f"{index} lists no weights (weight_map)")
    shards = []
    for name in sorted(set(listed.values())):
        path = index.parent / name
        if path.parent != index.parent or name in ("", ".", ".."):
            raise InputError(f"{index} names {name}, outside of its folder")
        if name.endswith(_INDEX):
            raise InputError(f"{index} names {name}, another index")
        if not os.path.exists(path):  # Also False for impossible names.
            raise InputError(f"{index} names {shown(name)}, which is missing")
        shards.append(_open_weights(path))
    joined = TensorFile.join(shards, str(index))
    lost = set(listed) - set(joined.shapes)
    if lost:
        raise InputError(f"{index} lists {min(lost)}, which is in no file")
    return joined
