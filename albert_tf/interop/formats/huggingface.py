"""Hugging Face's layout: read, and written by `save_pretrained`."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.interop.accounting import account_for
from albert_tf.interop.checkpoint import Checkpoint
from albert_tf.interop.config_files import (
    HF_ARCHITECTURES,
    OUR_MODEL_TYPE,
    config_from_huggingface,
    config_to_huggingface,
    head_from_huggingface,
    read_json,
)
from albert_tf.interop.files.file_kinds import explain_bad_file, file_kind
from albert_tf.interop.files.safetensors_file import (
    LazyTensor,
    SafetensorsFile,
    write_safetensors,
)
from albert_tf.interop.files.tensor_file import TensorFile
from albert_tf.interop.files.torch_file import read_torch_file
from albert_tf.interop.names import tensors_of
from albert_tf.interop.transforms import identity
from albert_tf.interop.vocabularies import folder_vocabulary

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
TORCH_FILE = "pytorch_model.bin"
_INDEX = ".index.json"  # of weights in several files


def find_weights(folder: str | os.PathLike[str]) -> pathlib.Path | None:
    """Returns the weights of a folder in this layout; safetensors come first.

    A file of another name is taken where it is the only one.
    """
    folder = pathlib.Path(folder)
    for name in (WEIGHTS_FILE, TORCH_FILE):
        for path in (folder / name, folder / (name + _INDEX)):
            if path.exists():
                return path
    others = sorted([*folder.glob("*.safetensors"), *folder.glob("*.bin")])
    others = [path for path in others if path.name != "training_args.bin"]
    return others[0] if len(others) == 1 else None


def open_huggingface(
    path: str | os.PathLike[str],
    *,
    head: str | None = None,
    overrides: dict[str, Any] | None = None,
) -> Checkpoint:
    """Opens a folder of transformers or ours, or a weights file in it.

    Args:
      path: the folder, or the weights with `config.json` beside.
      head: the head that the weights have, where the config does not say.
      overrides: fields of the config to replace.

    Raises:
      InputError: see `account_for`; or a file is missing or damaged.
    """
    path = pathlib.Path(path)
    folder = path if path.is_dir() else path.parent
    weights = find_weights(folder) if path.is_dir() else path
    if weights is None:
        raise InputError(
            f"{folder} holds {CONFIG_FILE}, but no {WEIGHTS_FILE} or "
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
    config = config.replace(**overrides or {})
    declared, settings = head_from_huggingface(values, str(config_file))
    file = _tensors(weights)
    account = account_for("huggingface", file, config, head=declared or head)
    vocabulary = folder_vocabulary(folder, "huggingface")
    if account.num_labels != len(settings.labels or ()):
        labels = None
    else:
        labels = settings.labels
    return Checkpoint(
        config=account.config,
        parts=account.parts,
        arrays=account.arrays,
        head=type(settings)(account.num_labels, labels, settings.dropout),
        vocabulary=vocabulary,
        source=str(path),
        format="Hugging Face, " + file_kind(_first_file(weights)),
        left=account.left,
        missing_head=declared if declared not in account.parts else None,
    )


def write_huggingface(
    checkpoint: Checkpoint, folder: str | os.PathLike[str], tick=None
) -> None:
    """Writes the files of a folder that transformers opens.

    What transformers' ALBERT cannot express (`sharing`, the joint span head) is
    written in the same scheme; of `sharing`, in a way that it refuses.

    Args:
      checkpoint: what to write.
      folder: an existing, empty folder.
      tick: called after every tensor of the checkpoint, if given.
    """
    folder = pathlib.Path(folder)
    config, tokenizer = checkpoint.config, checkpoint.tokenizer
    values = {
        "architectures": [architecture(checkpoint.parts)],
        **config_to_huggingface(config),
        "classifier_dropout_prob": checkpoint.head.dropout,
        "pad_token_id": tokenizer.pad_id if tokenizer else 0,
        "bos_token_id": tokenizer.cls_id if tokenizer else 2,
        "eos_token_id": tokenizer.sep_id if tokenizer else 3,
        "tie_word_embeddings": True,
        "dtype": "float32",
    }
    if {"classifier_head", "token_head"} & checkpoint.parts:
        labels = checkpoint.head.labels or tuple(
            f"LABEL_{i}" for i in range(checkpoint.head.num_labels)
        )
        values["id2label"] = {str(i): label for i, label in enumerate(labels)}
        values["label2id"] = {label: i for i, label in enumerate(labels)}
        if checkpoint.head.num_labels == 1:
            values["problem_type"] = "regression"
    longest = config.max_position_embeddings
    vocabulary = checkpoint.vocabulary.huggingface_files(longest)
    for name, content in vocabulary.items():
        (folder / name).write_bytes(content)
    ours_only = values["model_type"] == OUR_MODEL_TYPE
    write_safetensors(
        folder / WEIGHTS_FILE,
        _named_tensors(checkpoint, tick),
        # transformers 4 refuses a file of another format than its own.
        {"format": OUR_MODEL_TYPE if ours_only else "pt"},
    )
    text = json.dumps(dict(sorted(values.items())), indent=2) + "\n"
    (folder / CONFIG_FILE).write_text(text, encoding="utf-8")


def architecture(parts: frozenset[str]) -> str:
    """Returns the class of transformers that has these parts."""
    for name, head in HF_ARCHITECTURES.items():
        if head in parts:
            return name
    return "AlbertModel"


def _named_tensors(checkpoint: Checkpoint, tick) -> dict[str, LazyTensor]:
    """Returns Hugging Face's name -> a tensor that is made when written."""
    prefix = (
        "" if architecture(checkpoint.parts) == "AlbertModel" else "albert."
    )
    config, parts = checkpoint.config, set(checkpoint.parts)
    arrays = checkpoint.arrays
    if config.embedding_size == config.hidden_size:
        config = config.replace(project_equal_sizes=True)
        parts.add("projection")
    tensors = {}
    for tensor in tensors_of(config, parts, checkpoint.head.num_labels):
        theirs = tensor.names["huggingface"]

        def read(tensor=tensor, theirs=theirs):
            if tensor.path not in arrays:
                return theirs.transform.to_theirs(identity(tensor.shape))
            array = arrays[tensor.path]
            if tick:
                tick()
            return theirs.transform.to_theirs(array)

        name = theirs.name
        if name.startswith("albert."):
            name = prefix + name.removeprefix("albert.")
        shape = theirs.transform.shape(tensor.shape)
        tensors[name] = LazyTensor(shape, np.dtype(np.float32), read)
    return tensors


def _tensors(weights: pathlib.Path) -> TensorFile:
    if weights.name.endswith(_INDEX):
        return _sharded(weights)
    kind = file_kind(weights)
    if kind == "safetensors":
        opened = SafetensorsFile(weights)
    elif kind in ("torch_zip", "torch_legacy"):
        opened = read_torch_file(weights)
    else:
        expected = "safetensors"
        if weights.suffix in (".bin", ".pt", ".pth"):
            expected = "torch_zip"
        explain_bad_file(weights, expected)
    shapes = {name: tuple(opened.shape(name)) for name in opened}
    return TensorFile(shapes, opened.__getitem__, str(weights))


def _sharded(index: pathlib.Path) -> TensorFile:
    """Joins the files that an index lists."""
    listed = read_json(index).get("weight_map")
    if not isinstance(listed, dict) or not listed:
        raise InputError(f"{index} lists no weights (weight_map)")
    shards = {}
    for name in sorted(set(listed.values())):
        path = index.parent / str(name)
        if path.parent != index.parent:
            raise InputError(f"{index} names {name}, outside of its folder")
        if not path.exists():
            raise InputError(f"{path} is missing, which {index.name} lists")
        shards[name] = _tensors(path)
    shapes, owner = {}, {}
    for name, shard in shards.items():
        for tensor, shape in shard.shapes.items():
            if tensor in shapes:
                raise InputError(f"{index}: {tensor} is in two files")
            shapes[tensor], owner[tensor] = shape, name
    lost = sorted(set(listed) - set(shapes))
    if lost:
        raise InputError(f"{index} lists {lost[0]}, which no file holds")
    return TensorFile(
        shapes, lambda name: shards[owner[name]].read(name), str(index)
    )


def _first_file(weights: pathlib.Path) -> pathlib.Path:
    if weights.name.endswith(_INDEX):
        names = sorted(set(read_json(weights)["weight_map"].values()))
        return weights.parent / names[0]
    return weights
