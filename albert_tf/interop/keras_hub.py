"""KerasHub's presets; KerasHub itself is not required."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import pathlib
from typing import Any

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError, shown
from albert_tf.input_files import read_json
from albert_tf.interop.checkpoint import (
    Checkpoint,
    HeadSettings,
    OpenOptions,
    Vocabulary,
)
from albert_tf.interop.config_files import (
    check_dropout,
    config_from_keras_hub,
    config_to_keras_hub,
)
from albert_tf.interop.file_types import TensorFile
from albert_tf.interop.hdf5_file import open_hdf5
from albert_tf.interop.matching import match_tensors
from albert_tf.schema import typed
from albert_tf.text.character_map import (
    remaining_differences,
    with_own_normalizer,
)
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.tokenizer_config import check_settings
from albert_tf.text.wordpiece_tokenizer import AlbertWordPieceTokenizer

_logger = logging.getLogger(__name__)

CONFIG_FILE = "config.json"
BACKBONE_FILE = "model.weights.h5"
TASK_FILE = "task.weights.h5"
TASK_CONFIG = "task.json"
_TASK = "task/"  # the prefix of the task file's tensors in the table
_TASK_BACKBONE = _TASK + "layers/albert_backbone/"
METADATA_FILE = "metadata.json"
_OUR_SETTINGS = "albert_tf_tokenizer"  # metadata key; KerasHub ignores it
_KERAS_HUB_TEXT = {
    "do_lower_case": False,
    "strip_accents": False,
    "digit_comma": "off",
}
_CASED = (
    "the tokenizer does not lower-case, as in KerasHub; Google's English "
    "vocabularies require lower-cased text"
)
_VOCABULARY = pathlib.Path("assets/tokenizer/vocabulary.spm")
# The vocabulary of our tokenizer beside that for KerasHub, if it is another.
_ORIGINAL = _VOCABULARY.with_name(AlbertTokenizer.file_name)

_TASKS = {
    "AlbertMaskedLM": "mlm_head",
    "AlbertTextClassifier": "classifier_head",
    "AlbertClassifier": "classifier_head",  # its name until 2024
}
# Versions whose format is written; KerasHub does not check them.
_METADATA = {"keras_version": "3.15.1", "keras_hub_version": "0.32.0"}


def is_keras_hub_config(values: dict[str, Any]) -> bool:
    """Returns whether a `config.json` belongs to an ALBERT preset."""
    return values.get("class_name") == "AlbertBackbone"


def is_preset(folder: pathlib.Path) -> bool:
    """Returns whether a folder has the `config.json` of an ALBERT preset."""
    path = folder / CONFIG_FILE
    return path.exists() and is_keras_hub_config(read_json(path))


def open_keras_hub(folder: pathlib.Path, options: OpenOptions) -> Checkpoint:
    """Opens the folder of a preset: a backbone, and possibly a task."""
    config = _backbone_config(
        read_json(folder / CONFIG_FILE), f"config file {folder / CONFIG_FILE}"
    )
    settings, task = HeadSettings(), _task(folder, config)
    config = config.replace(**options.overrides)
    if task is not None:
        source = str(folder / TASK_CONFIG)
        dropout = typed(task, "dropout", float, None, source)
        settings = HeadSettings(
            dropout=check_dropout(dropout, "dropout", source)
        )
    files = [open_hdf5(folder / BACKBONE_FILE)]
    if task is not None:
        file = open_hdf5(folder / TASK_FILE)
        files.append(file.select({_TASK + name: name for name in file.shapes}))
    file, copies = _without_copies(TensorFile.join(files, str(folder)))
    matched = match_tensors("keras_hub", file, config, head="classifier_head")
    vocabulary = _vocabulary(folder)
    notes = ()
    if tokenizer := vocabulary.tokenizer:
        # It may lower-case only by its vocabulary.
        if tokenizer.encode("Whether THE") != tokenizer.encode("whether the"):
            notes = (_CASED,)
    activation = (task or {}).get("activation")
    if activation not in (None, "linear"):
        notes += (
            f"skipped: the classifier's activation, {shown(activation)}; "
            "models here return logits",
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


def _backbone_config(described: dict[str, Any], source: str) -> AlbertConfig:
    arguments = typed(described, "config", dict, {}, source)
    return config_from_keras_hub(arguments, source)


def _task(folder: pathlib.Path, config: AlbertConfig) -> dict[str, Any] | None:
    """Returns the arguments of the preset's task, or None.

    It must be a complete ALBERT task with the backbone of the preset.
    """
    path = folder / TASK_CONFIG
    if not path.exists():
        return None
    described, source = read_json(path), str(path)
    name = typed(described, "class_name", str, "", source)
    if name not in _TASKS:
        raise InputError(
            f"{source} describes a {name[:80]}, expected one of "
            f"{', '.join(_TASKS)}"
        )
    if "config" not in described:
        raise InputError(f"{source}: key 'config' is missing")
    task = typed(described, "config", dict, {}, source)
    backbone = typed(task, "backbone", dict, None, source)
    if backbone and _backbone_config(backbone, source) != config:
        raise InputError(
            f"{source} has another backbone than {folder / CONFIG_FILE}; use "
            "files of one model"
        )
    return task


def write_keras_hub(
    checkpoint: Checkpoint, folder: pathlib.Path, on_tensor=None
) -> None:
    """Writes a preset that `keras_hub.models...from_preset(folder)` opens.

    For the arguments, see `convert.WRITERS`.
    """
    import h5py

    arguments = config_to_keras_hub(checkpoint.config)
    if "pooler" not in checkpoint.components:
        raise InputError(
            "KerasHub's AlbertBackbone needs a pooler, but the checkpoint has "
            "none"
        )
    if isinstance(checkpoint.tokenizer, AlbertWordPieceTokenizer):
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
            f"a preset of KerasHub has one head, not {' and '.join(heads)}"
        )
    names = {"": BACKBONE_FILE} | ({_TASK: TASK_FILE} if heads else {})
    with contextlib.ExitStack() as stack:
        # In memory, as HDF5 crashes when the disk is full.
        files = {
            prefix: stack.enter_context(
                h5py.File(name, "w", driver="core", backing_store=False)
            )
            for prefix, name in names.items()
        }
        count = 0
        for name, array in checkpoint.tensors_for("keras_hub", on_tensor):
            prefix = _TASK if name.startswith(_TASK) else ""
            # HDF5 verifies this checksum in every reader.
            files[prefix].create_dataset(
                name.removeprefix(prefix),
                data=np.ascontiguousarray(array),
                chunks=array.shape,
                fletcher32=True,
            )
            count += 0 if prefix else array.size
        for prefix, file in files.items():
            file.flush()
            (folder / names[prefix]).write_bytes(file.id.get_file_image())
    _write_descriptions(checkpoint, folder, arguments, heads, count)


def _write_descriptions(checkpoint, folder, arguments, heads, count) -> None:
    backbone = _serialized("AlbertBackbone", "albert_backbone", arguments)
    _write_json(folder / CONFIG_FILE, backbone)
    preprocessor = None
    if checkpoint.tokenizer is not None:
        _write_vocabulary(checkpoint.tokenizer, folder)
        tokenizer = _serialized(
            "AlbertTokenizer",
            "albert_tokenizer",
            {"config_file": "tokenizer.json", "proto": None},
            "int32",
        )
        _write_json(folder / "tokenizer.json", tokenizer)
        preprocessor = {
            "tokenizer": tokenizer,
            "config_file": "preprocessor.json",
            # KerasHub's default is 512, whatever the backbone's limit.
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
            preprocessor = _serialized(
                f"{name}Preprocessor", f"{module}_preprocessor", preprocessor
            )
            _write_json(folder / "preprocessor.json", preprocessor)
        task |= {"backbone": backbone, "preprocessor": preprocessor}
        _write_json(folder / TASK_CONFIG, _serialized(name, module, task, None))
    metadata = {**_METADATA, "parameter_count": count, "date_saved": ""}
    if checkpoint.tokenizer is not None:
        metadata[_OUR_SETTINGS] = checkpoint.tokenizer.settings
    _write_json(folder / METADATA_FILE, metadata)


def _write_vocabulary(tokenizer: AlbertTokenizer, folder: pathlib.Path) -> None:
    """Writes a vocabulary that does in KerasHub what our settings do."""
    theirs = dict.fromkeys(tokenizer.settings, False) | _KERAS_HUB_TEXT
    model, differences = tokenizer.model_bytes, []
    if tokenizer.settings != theirs:
        model = with_own_normalizer(tokenizer)
        differences = remaining_differences(tokenizer)
    (folder / _VOCABULARY).parent.mkdir(parents=True)
    (folder / _VOCABULARY).write_bytes(model)
    if model != tokenizer.model_bytes:
        (folder / _ORIGINAL).write_bytes(tokenizer.model_bytes)
    if differences:
        _logger.warning(
            "KerasHub's tokenizer will give the same ids, except for %s; see "
            "docs/checkpoints.md",
            ", ".join(differences),
        )


def _serialized(class_name, module, arguments, dtype="float32") -> dict:
    """Returns an object as Keras serializes it; tasks have no `dtype`."""
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
    """Loads the preset's tokenizer.

    Its settings are those in the metadata, if `write_keras_hub` wrote them, or
    else KerasHub's, which does not normalize text.
    """
    path = folder / _VOCABULARY
    if not path.exists():
        return Vocabulary()
    settings = _KERAS_HUB_TEXT
    if (folder / METADATA_FILE).exists():
        source = str(folder / METADATA_FILE)
        settings = typed(
            read_json(source), _OUR_SETTINGS, dict, settings, source
        )
        check_settings(settings, source)
        if settings is not _KERAS_HUB_TEXT and (folder / _ORIGINAL).exists():
            path = folder / _ORIGINAL
    try:
        return Vocabulary(AlbertTokenizer.from_file(path, **settings))
    except InputError as error:
        return Vocabulary(problem=str(error))


def _write_json(path: pathlib.Path, values: dict) -> None:
    path.write_text(json.dumps(values, indent=4), encoding="utf-8")


def _without_copies(file: TensorFile) -> tuple[TensorFile, dict[str, str]]:
    """Removes the task file's copy of the backbone, if it has one.

    KerasHub intends to leave it out, but writes it with newer versions of Keras
    (0.25 with Keras 3.12). It must be equal. Also returns the name of each copy
    -> why it is skipped.
    """
    copies = {}
    for name in file.shapes:
        original = name.removeprefix(_TASK_BACKBONE)
        if original == name or original not in file.shapes:
            continue
        if not np.array_equal(file.read(name), file.read(original)):
            raise InputError(
                f"{file.source}: {original} differs between {BACKBONE_FILE} "
                f"and {TASK_FILE}; use files of one model"
            )
        copies[name] = "copy of the backbone"
    rest = {name: name for name in file.shapes if name not in copies}
    return file.select(rest), copies
