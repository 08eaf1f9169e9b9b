"""KerasHub's presets (KerasHub itself is not needed)."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from typing import Any

import numpy as np

from albert_tf.errors import InputError
from albert_tf.interop.checkpoint import (
    Checkpoint,
    HeadSettings,
    Vocabulary,
)
from albert_tf.interop.config_files import (
    config_from_keras_hub,
    config_to_keras_hub,
    read_json,
)
from albert_tf.interop.files.file_types import (
    TensorFile,
    explain_bad_file,
    file_kind,
)
from albert_tf.interop.matching import match_tensors
from albert_tf.interop.names import identity, tensors_of
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.wordpiece_tokenizer import WordPieceTokenizer

CONFIG_FILE = "config.json"
BACKBONE_FILE = "model.weights.h5"
TASK_FILE = "task.weights.h5"
_TASK = "task/"  # the prefix of the task file's tensors in the table
_TASK_BACKBONE = _TASK + "layers/albert_backbone/"
METADATA_FILE = "metadata.json"
_OUR_SETTINGS = "albert_tf_tokenizer"  # a key that KerasHub passes over
_KERAS_HUB_TEXT = {
    "do_lower_case": False,
    "strip_accents": False,
    "digit_comma": "off",
}
_CASED = (
    "the tokenizer does not lower-case, as in KerasHub; Google's English "
    "vocabularies expect lower-cased text"
)
_VOCABULARY = pathlib.Path("assets/tokenizer/vocabulary.spm")

_TASKS = {
    "AlbertMaskedLM": "mlm_head",
    "AlbertTextClassifier": "classifier_head",
    "AlbertClassifier": "classifier_head",  # its name until 2024
}
# Versions whose files these are; KerasHub only records them.
_METADATA = {"keras_version": "3.15.1", "keras_hub_version": "0.32.0"}


def is_keras_hub_config(values: dict[str, Any]) -> bool:
    """Returns whether a `config.json` is that of a preset of ALBERT."""
    return values.get("class_name") == "AlbertBackbone"


def open_keras_hub(
    folder: str | os.PathLike[str], *, overrides: dict[str, Any] | None = None
) -> Checkpoint:
    """Opens the folder of a preset: a backbone, with or without a task.

    Raises:
      InputError: see `match_tensors`; or a file is missing or damaged.
    """
    folder = pathlib.Path(folder)
    config_file = folder / CONFIG_FILE
    config = config_from_keras_hub(
        read_json(config_file).get("config") or {}, f"config file {config_file}"
    ).replace(**overrides or {})
    settings, task = HeadSettings(), {}
    if (folder / "task.json").exists():
        described = read_json(folder / "task.json")
        task = described.get("config") or {}
        if described.get("class_name") not in _TASKS:
            raise InputError(
                f"{folder / 'task.json'} describes a "
                f"{described.get('class_name')}, expected one of "
                f"{', '.join(_TASKS)}"
            )
        dropout = task.get("dropout")
        settings = HeadSettings(dropout=0.1 if dropout is None else dropout)
    file = _tensors(folder, bool(task))
    file, copies = _without_copies(file)
    matched = match_tensors("keras_hub", file, config, head="classifier_head")
    vocabulary = _vocabulary(folder)
    notes = ()
    if (
        vocabulary.tokenizer
        and not vocabulary.tokenizer.settings["do_lower_case"]
    ):
        notes = (_CASED,)
    activation = task.get("activation")
    if activation not in (None, "linear"):
        notes += (
            f"skipped: the classifier's activation, {activation!r}; models "
            "here return logits",
        )
    return dataclasses.replace(
        matched,
        head=dataclasses.replace(settings, num_labels=matched.head.num_labels),
        vocabulary=vocabulary,
        source=str(folder),
        format="KerasHub",
        skipped={**matched.skipped, **copies},
        notes=notes,
    )


def write_keras_hub(
    checkpoint: Checkpoint, folder: str | os.PathLike[str], tick=None
) -> None:
    """Writes a preset that `keras_hub.models...from_preset(folder)` opens.

    Args:
      checkpoint: what to write.
      folder: an existing, empty folder.
      tick: called after every tensor of the checkpoint, if given.

    Raises:
      InputError: KerasHub cannot express the architecture, a head or the
        tokenizer.
    """
    import h5py

    folder = pathlib.Path(folder)
    arguments = config_to_keras_hub(checkpoint.config)
    if "pooler" not in checkpoint.components:
        raise InputError(
            "KerasHub's AlbertBackbone needs a pooler, which the checkpoint "
            "lacks"
        )
    if isinstance(checkpoint.tokenizer, WordPieceTokenizer):
        raise InputError(
            "KerasHub's AlbertTokenizer does not support WordPiece; drop the "
            "tokenizer with --drop=tokenizer, or write another format"
        )
    heads = checkpoint.heads
    known = {head: name for name, head in reversed(_TASKS.items())}
    for head in heads:
        if head not in known:
            raise InputError(
                f"KerasHub's ALBERT has no {head}; drop it with "
                f"--drop={head}, or write another format"
            )
    if len(heads) > 1:
        raise InputError(
            f"a preset of KerasHub holds one head, not {' and '.join(heads)}"
        )
    config = checkpoint.config
    components = set(checkpoint.components) | {"projection"}
    if config.embedding_size == config.hidden_size:
        config = config.replace(project_equal_sizes=True)
    files = {"": h5py.File(folder / BACKBONE_FILE, "w")}
    count = 0
    try:
        if heads:
            files[_TASK] = h5py.File(folder / TASK_FILE, "w")
        for tensor in tensors_of(
            config, components, checkpoint.head.num_labels
        ):
            theirs = tensor.names["keras_hub"]
            if tensor.path in checkpoint.arrays:
                array = checkpoint.arrays[tensor.path]
            else:
                array = identity(tensor.shape)
            array = theirs.transform.to_theirs(array)
            prefix = _TASK if theirs.name.startswith(_TASK) else ""
            name = theirs.name.removeprefix(prefix)
            files[prefix].create_dataset(name, data=np.ascontiguousarray(array))
            count += 0 if prefix else array.size
            if tick and tensor.path in checkpoint.arrays:
                tick()
    finally:
        for file in files.values():
            file.close()
    _write_descriptions(checkpoint, folder, arguments, heads, count)


def _write_descriptions(checkpoint, folder, arguments, heads, count) -> None:
    backbone = _described("AlbertBackbone", "albert_backbone", arguments)
    _write_json(folder / CONFIG_FILE, backbone)
    preprocessor = None
    if checkpoint.tokenizer is not None:
        (folder / _VOCABULARY).parent.mkdir(parents=True)
        (folder / _VOCABULARY).write_bytes(checkpoint.tokenizer.model_bytes)
        tokenizer = _described(
            "AlbertTokenizer",
            "albert_tokenizer",
            {"config_file": "tokenizer.json", "proto": None},
            "int32",
        )
        _write_json(folder / "tokenizer.json", tokenizer)
        preprocessor = {
            "tokenizer": tokenizer,
            "config_file": "preprocessor.json",
            # KerasHub's default is 512, whatever the backbone can take.
            "sequence_length": min(512, arguments["max_sequence_length"]),
        }
    if heads:
        name, module, task = "AlbertMaskedLM", "albert_masked_lm", {}
        if heads == ("classifier_head",):
            name, module = "AlbertTextClassifier", "albert_text_classifier"
            task = {
                "num_classes": checkpoint.head.num_labels,
                "activation": "linear",
                "dropout": checkpoint.head.dropout,
            }
        if preprocessor:
            preprocessor = _described(
                f"{name}Preprocessor", f"{module}_preprocessor", preprocessor
            )
            _write_json(folder / "preprocessor.json", preprocessor)
        task |= {"backbone": backbone, "preprocessor": preprocessor}
        _write_json(folder / "task.json", _described(name, module, task, None))
    metadata = {**_METADATA, "parameter_count": count, "date_saved": ""}
    if checkpoint.tokenizer is not None:
        metadata[_OUR_SETTINGS] = checkpoint.tokenizer.settings
    _write_json(folder / METADATA_FILE, metadata)


def _described(class_name, module, arguments, dtype="float32") -> dict:
    """Returns an object as Keras serializes it; a task has no `dtype`."""
    policy = {
        "trainable": True,
        "dtype": {
            "module": "keras",
            "class_name": "DTypePolicy",
            "config": {"name": dtype},
            "registered_name": None,
        },
    }
    return {
        "module": f"keras_hub.src.models.albert.{module}",
        "class_name": class_name,
        "config": {"name": module, **(policy if dtype else {}), **arguments},
        "registered_name": f"keras_hub>{class_name}",
    }


def _vocabulary(folder: pathlib.Path) -> Vocabulary:
    """Reads the preset's tokenizer.

    The settings are those that `write_keras_hub` wrote to the metadata, or
    else KerasHub's, which does not normalize text.
    """
    path = folder / _VOCABULARY
    if not path.exists():
        return Vocabulary()
    settings = _KERAS_HUB_TEXT
    if (folder / METADATA_FILE).exists():
        metadata = read_json(folder / METADATA_FILE)
        settings = metadata.get(_OUR_SETTINGS, settings)
    try:
        return Vocabulary(AlbertTokenizer.from_file(path, **settings))
    except (InputError, TypeError) as error:
        return Vocabulary(problem=str(error))


def _write_json(path: pathlib.Path, values: dict) -> None:
    path.write_text(json.dumps(values, indent=4), encoding="utf-8")


def _tensors(folder: pathlib.Path, has_task: bool) -> TensorFile:
    paths = {"": folder / BACKBONE_FILE}
    if has_task:
        paths[_TASK] = folder / TASK_FILE
    shapes: dict[str, tuple[int, ...]] = {}
    for prefix, path in paths.items():
        shapes |= {prefix + k: v for k, v in _h5_shapes(path).items()}

    def read(name: str) -> np.ndarray:
        prefix = _TASK if name.startswith(_TASK) else ""
        return _h5_read(paths[prefix], name.removeprefix(prefix))

    return TensorFile(shapes, read, str(folder))


def _without_copies(file: TensorFile) -> tuple[TensorFile, dict[str, str]]:
    """Takes the backbone out of the task's file, where it may be a second time.

    KerasHub means to leave it out, and does not where Keras is newer, as 0.25
    with Keras 3.12. Returns the rest, and name -> reason.

    Raises:
      InputError: it is another backbone than the one beside it.
    """
    copies = {}
    for name in file.shapes:
        original = name.removeprefix(_TASK_BACKBONE)
        if original == name or original not in file.shapes:
            continue
        if not np.array_equal(file.read(name), file.read(original)):
            raise InputError(
                f"{file.source}: {original} differs between {BACKBONE_FILE} "
                f"and {TASK_FILE}; they belong to different models"
            )
        copies[name] = "copy of the backbone"
    rest = {k: v for k, v in file.shapes.items() if k not in copies}
    return TensorFile(rest, file.read, file.source), copies


def _h5_shapes(path: pathlib.Path) -> dict[str, tuple[int, ...]]:
    import h5py

    if file_kind(path) != "hdf5":
        explain_bad_file(path, "hdf5")
    shapes = {}

    def visit(name, item):
        if isinstance(item, h5py.Dataset):
            shapes[name] = tuple(item.shape)

    try:
        with h5py.File(path, "r") as file:
            file.visititems(visit)
    except (OSError, RuntimeError, KeyError) as error:
        raise InputError(f"{path} is a damaged HDF5 file: {error}") from None
    return shapes


def _h5_read(path: pathlib.Path, name: str) -> np.ndarray:
    import h5py

    try:
        with h5py.File(path, "r") as file:
            values, attributes = file[name][()], file[name].attrs
            if attributes.get("dtype") == "bfloat16":
                # Two bytes each: the upper half of a float32.
                upper = values.view(np.uint16).astype(np.uint32)
                values = (upper << 16).view(np.float32)
            return values
    except (OSError, RuntimeError, KeyError) as error:
        raise InputError(f"{path}: {name} cannot be read: {error}") from None
