"""Opening of checkpoints and tokenizers of every system."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.input_files import read_json
from albert_tf.interop import google, huggingface, keras_hub, run_folder
from albert_tf.interop.archive import UnpackedArchive
from albert_tf.interop.checkpoint import Checkpoint, LazyArrays, OpenOptions
from albert_tf.interop.file_types import explain_bad_file, file_kind
from albert_tf.interop.growing import extend_positions
from albert_tf.interop.hubs import resolve
from albert_tf.interop.names import ANY_HEAD
from albert_tf.schema import check_argument
from albert_tf.text import tokenizer_files
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.tokenizer_json import TOKENIZER_JSON

_TOKENIZER_FILES = (".model", ".spm", ".txt")
_HF_CONFIG = huggingface.CONFIG_FILE
_SAVED_MODEL = "saved_model.pb"
# The kinds of files to expect.
_KINDS = ("safetensors", "torch_zip", "tf_index", "tar_gz")
# Formats that always include a config.
_WITH_CONFIG = ("Hugging Face", "KerasHub", "training run")


def open_checkpoint(
    path: str | os.PathLike[str],
    *,
    head: str | None = None,
    config: AlbertConfig | None = None,
    config_overrides: Mapping[str, Any] | None = None,
    revision: str | None = None,
) -> Checkpoint:
    """Opens an ALBERT checkpoint of any system.

    The format is detected from the content. No code in a checkpoint, such as a
    pickle or a graph, is executed.

    Args:
      path: a folder (of transformers, `save_pretrained`, a training run, a
        KerasHub preset, a SavedModel, or with a TF1 or TF2 checkpoint); a
        weights file with its config beside it; a TensorFlow checkpoint's path
        without ".index"; an archive of any of these; "albert_tiny_en", which
        is part of the package; or a name on a hub, such as
        "albert/albert-base-v2" or
        "kaggle://keras/albert/keras/albert_base_en_uncased".
      head: the task head, one of `interop.names.HEADS`, if the names of its
        tensors are ambiguous.
      config: the architecture, for a TensorFlow checkpoint without a config.
      config_overrides: config fields to replace. If the checkpoint has a
        config, a larger `max_position_embeddings` extends the model; see
        `extend_positions`.
      revision: a branch, tag or commit on the Hugging Face hub.

    Returns:
      The checkpoint. Its arrays are read on access.

    Raises:
      InputError: if the checkpoint cannot be opened, or a tensor is missing,
        misshapen or unexpected.
    """
    check_argument(path, str | os.PathLike, "path")
    local = pathlib.Path(resolve(os.fspath(path), revision=revision))
    overrides = dict(config_overrides or {})
    for key in overrides:
        if key not in AlbertConfig.__dataclass_fields__:
            raise AlbertConfig.unknown_key(key, "config_overrides")
    # With `config`, the override is the number of rows in the checkpoint.
    length = None
    if config is None:
        length = overrides.pop("max_position_embeddings", None)
    options = OpenOptions(head, config, overrides)
    if local.is_dir():
        checkpoint = _open_folder(local, options)
    elif local.exists():
        checkpoint = _open_file(local, options)
    else:  # A checkpoint's path without ".index".
        checkpoint = _open_prefix(local, options)
    if config is not None and checkpoint.format.startswith(_WITH_CONFIG):
        raise InputError(
            "config=... is only for TensorFlow checkpoints, but "
            f"{checkpoint.source} has a {_HF_CONFIG}; change fields of it with "
            "config_overrides=..."
        )
    if length is not None:
        checkpoint = extend_positions(checkpoint, length)
    longest = checkpoint.config.num_trained_positions
    return dataclasses.replace(
        checkpoint, vocabulary=checkpoint.vocabulary.for_length(longest)
    )


def open_fine_tuned(
    path: str | os.PathLike[str],
) -> tuple[pathlib.Path | None, Checkpoint | None]:
    """Finds the folder of a fine-tuned model, whatever form it is given in.

    Returns the folder of the model with its `task.json`, or None. If the path
    (see `open_checkpoint`) is not a folder but an archive, a file of weights or
    a name on a hub, also the open checkpoint, without which the folder of an
    archive is removed.
    """
    folder = run_folder.fine_tuned_model(path)
    if folder is not None or os.path.isdir(path):
        return folder, None
    try:
        checkpoint = open_checkpoint(path, head=ANY_HEAD)
    except InputError:
        return None, None  # Callers open it again, and say what it is to be.
    folder = checkpoint.folder
    return folder and run_folder.fine_tuned_model(folder), checkpoint


def _open_folder(folder: pathlib.Path, options: OpenOptions) -> Checkpoint:
    folder = run_folder.fine_tuned_model(folder) or folder
    if run_folder.is_run_folder(folder):
        return run_folder.open_run_checkpoint(folder, options)
    config_file = folder / _HF_CONFIG
    if config_file.exists():
        values = read_json(config_file)
        if keras_hub.is_keras_hub_config(values):
            return keras_hub.open_keras_hub(folder, options)
        if huggingface.find_weights(folder) is not None:
            return huggingface.open_huggingface(folder, options)
    # Not before the model of `save_pretrained`, which may be beside it.
    if (folder / _SAVED_MODEL).exists():
        return _open_saved_model(folder, options)
    prefix = google.find_checkpoint(folder)
    if prefix is not None:
        return _open_prefix(prefix, options)
    if huggingface.find_weights(folder) is not None:
        return huggingface.open_huggingface(folder, options)
    files = sorted(entry.name for entry in folder.iterdir())
    shown = ", ".join(files[:6]) + (", ..." if files[6:] else "")
    raise InputError(
        f"{folder} has no checkpoint of a known format ({shown or 'empty'}); "
        "expected model.safetensors or pytorch_model.bin with config.json, a "
        "TensorFlow checkpoint with albert_config.json, saved_model.pb, or a "
        "preset of KerasHub"
    )


def _open_file(path: pathlib.Path, options: OpenOptions) -> Checkpoint:
    if path.name.endswith(".index.json"):
        return huggingface.open_huggingface(path, options)
    kind = file_kind(path)
    if kind in ("tar", "tar_gz", "gzip"):
        archive = UnpackedArchive(path)
        with archive.named():
            checkpoint = _open_folder(archive.folder, options)

        def read(name: str) -> np.ndarray:  # Keeps the unpacked files.
            with archive.named():
                return checkpoint.arrays[name]

        return dataclasses.replace(
            checkpoint,
            source=str(path),
            arrays=LazyArrays(checkpoint.arrays, read),
        )
    if kind in ("safetensors", "torch_zip", "torch_legacy"):
        return huggingface.open_huggingface(path, options)
    files = (keras_hub.BACKBONE_FILE, keras_hub.TASK_FILE)
    is_preset = path.name in files and keras_hub.is_preset(path.parent)
    if kind == "hdf5" and is_preset:
        return keras_hub.open_keras_hub(path.parent, options)
    if path.name == _SAVED_MODEL:
        return _open_saved_model(path.parent, options)
    if kind == "tf_index" or path.suffix == ".meta":
        return _open_prefix(path.with_suffix(""), options)
    if ".data-" in path.name:
        prefix = path.with_name(path.name.split(".data-")[0])
        return _open_prefix(prefix, options)
    # One of KerasHub is read above; another one need not be damaged.
    explain_bad_file(path, _KINDS if kind == "hdf5" else _expected(path))


def _expected(path: pathlib.Path) -> str | tuple[str, ...]:
    """Returns the file kinds to expect by a file's suffix."""
    return {
        ".safetensors": "safetensors",
        ".bin": "torch_zip",
        ".h5": "hdf5",
        ".index": "tf_index",
        ".tar": "tar",
        ".gz": "tar_gz",
        ".tgz": "tar_gz",
    }.get(path.suffix, _KINDS)


def _open_saved_model(folder: pathlib.Path, options: OpenOptions) -> Checkpoint:
    # Imported here, as models of other backends work without TensorFlow.
    from albert_tf.interop.saved_model import open_saved_model

    return open_saved_model(folder, options)


def _open_prefix(prefix: pathlib.Path, options: OpenOptions) -> Checkpoint:
    folder = prefix.parent
    if folder.name == run_folder.CHECKPOINTS and run_folder.is_run_folder(
        folder.parent
    ):
        return run_folder.open_run_checkpoint(prefix, options)
    return google.open_tensorflow(prefix, options)


def load_tokenizer(
    path: str | os.PathLike[str], revision: str | None = None, **settings: Any
) -> Tokenizer:
    """Loads the tokenizer of a checkpoint of any system.

    Special tokens in a text, such as `[MASK]`, are converted to their ids if
    `match_special_tokens` is true. It is for Hugging Face's checkpoints, as in
    transformers, and is not for others, as in the original.

    Args:
      path: any path or name that `from_pretrained` of the models takes, a
        folder of tokenizer files, such as a run or records, a SentencePiece
        model, or a `vocab.txt`.
      revision: a branch, tag or commit on the Hugging Face hub.
      **settings: settings that replace the checkpoint's: arguments of
        `AlbertTokenizer` or, for a `vocab.txt`, of `AlbertWordPieceTokenizer`.

    Returns:
      An `AlbertTokenizer` or, for a `vocab.txt`, an `AlbertWordPieceTokenizer`.

    Raises:
      InputError: if there is no usable tokenizer.
    """
    check_argument(path, str | os.PathLike, "path")
    local = resolve(os.fspath(path), revision=revision)
    if os.path.exists(os.path.join(local, tokenizer_files.SETTINGS_FILE)):
        return tokenizer_files.load_tokenizer(local).with_settings(**settings)
    if local.endswith(_TOKENIZER_FILES) and not os.path.isdir(local):
        return AlbertTokenizer.from_file(local, **settings)
    try:
        vocabulary = open_checkpoint(local, head=ANY_HEAD).vocabulary
    except InputError:
        tokenizer = _tokenizer_without_weights(pathlib.Path(local), settings)
        if tokenizer is None:
            raise
        return tokenizer
    if vocabulary.tokenizer is None:
        raise InputError(
            f"{path} has no usable tokenizer"
            f"{vocabulary.problem and ': '}{vocabulary.problem}"
        )
    return vocabulary.tokenizer.with_settings(**settings)


def _tokenizer_without_weights(
    folder: pathlib.Path, settings: Mapping[str, Any]
) -> Tokenizer | None:
    """Loads a tokenizer from a folder without settings and without weights.

    Returns None if it has weights, which may be damaged, or no tokenizer.
    """
    if not folder.is_dir() or huggingface.find_weights(folder) is not None:
        return None
    if any((folder / name).exists() for name in (_HF_CONFIG, TOKENIZER_JSON)):
        return tokenizer_files.load_tokenizer(folder).with_settings(**settings)
    for name in (tokenizer_files.MODEL_FILE, tokenizer_files.WORDPIECE_FILE):
        if (folder / name).exists():
            return AlbertTokenizer.from_file(folder / name, **settings)
    return None
