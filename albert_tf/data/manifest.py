"""`manifest.json`: settings, inputs, files and statistics of a data set."""

from __future__ import annotations

import collections
import importlib.metadata
import json
import os
import pathlib
import platform
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

import numpy as np

from albert_tf.data.data_config import (
    Masking,
    PretrainingDataConfig,
    SentenceOrder,
    WordStarts,
)
from albert_tf.data.documents import ODDITIES
from albert_tf.data.frequent_labels import describe_labels, rank_labels
from albert_tf.data.text_files import TextPath, size_of
from albert_tf.errors import InputError, shown
from albert_tf.input_files import exists, read_json, sha256
from albert_tf.schema import check_type
from albert_tf.text.base_tokenizer import Tokenizer

MANIFEST_NAME = "manifest.json"
DATA_FILE = "data_manifest.json"  # copy of the manifest in a run's folder
SPLITS = {"train": "pretraining", "heldout": "heldout"}  # -> file name prefix

_FORMAT = "albert_tf pretraining data"
MIXTURE_FORMAT = "albert_tf mixture of pretraining data"
VERSION = 1
_WEIGHTS = (1e-9, 1e9)  # of corpora, relative to each other
_PACKAGES = (
    *("albert-tf", "numpy", "protobuf"),
    *("scikit-learn", "sentencepiece", "sentencex"),
)


class _InputExtras(TypedDict, total=False):
    sha256: str


class _Input(_InputExtras):
    name: str
    bytes: int


class _File(TypedDict):
    name: str
    records: int
    bytes: int


class _FrequentLabels(TypedDict):
    total: int
    counts: Mapping[str, int]


class _SplitExtras(TypedDict, total=False):
    frequent_labels: _FrequentLabels
    labels: Mapping[str, int]  # static masking only
    shortcuts: Mapping[str, float]  # of pairs; `add_shortcuts`


class _Shares(TypedDict):
    passes: int
    counts: Mapping[str, int]
    padding_fraction: float
    masking_rate: float
    constant_guess_accuracy: float


class _Split(_SplitExtras, _Shares):
    files: list[_File]
    kept_fraction: float


class _Tokenizer(TypedDict):
    file: str
    fingerprint: str
    vocab_size: int


class _OptionalSettings(TypedDict, total=False):
    seed: int
    heldout_fraction: float
    pack: bool  # only if True
    max_sequences_per_row: int  # only with pack
    word_starts: WordStarts  # unless it is the default


class _Settings(_OptionalSettings):
    masking: Masking
    sentence_order: SentenceOrder
    max_seq_length: int
    max_predictions_per_seq: int
    masked_lm_prob: float
    ngram: int
    favor_shorter_ngram: bool
    do_whole_word_mask: bool


class _Corpus(TypedDict):
    name: str
    weight: float


class _Guess(TypedDict):
    id: int


class _ManifestExtras(TypedDict, total=False):
    constant_guess: _Guess
    inputs: list[_Input]
    oddities: Mapping[str, int]
    corpora: list[_Corpus]  # of a run on a mixture


class _Manifest(_ManifestExtras):
    """The fields of a manifest that are read; it has others."""

    settings: _Settings
    tokenizer: _Tokenizer
    splits: Mapping[str, _Split]


class DataDescription(_ManifestExtras):
    """The entries of a manifest that a model card shows."""

    settings: Mapping[str, Any]
    splits: Mapping[str, _Shares]


class _Mixture(TypedDict):
    """The fields of a mixture's manifest that are read."""

    corpora: list[_Corpus]


def read_manifest(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads the manifest of a folder created by `create_pretraining_data`.

    The folder may be on any file system supported by TensorFlow.

    Raises:
      InputError: if there is no manifest; see also `read_manifest_file`.
    """
    manifest = find_manifest(folder)
    if manifest is None:
        raise InputError(
            f"{folder}: no {MANIFEST_NAME}, so no finished pretraining data; "
            "create them with create-data, or name the record files"
        )
    return manifest


def find_manifest(
    folder: str | os.PathLike[str], *, mixtures: bool = False
) -> dict[str, Any] | None:
    """Reads the manifest of a folder, if there is one."""
    path = os.path.join(os.fspath(folder), MANIFEST_NAME)
    if not exists(path):
        return None
    return read_manifest_file(path, mixtures=mixtures)


def is_mixture(manifest: Mapping[str, Any]) -> bool:
    """Returns whether a manifest is that of a mixture of corpora."""
    return manifest["format"] == MIXTURE_FORMAT


def check_weight(weight: float, text: str, source: str) -> None:
    """Checks that the weight of a corpus can be compared with others."""
    low, high = _WEIGHTS
    if not low <= weight <= high:
        raise InputError(
            f"{source}: the weight {text!r} must be a number in "
            f"[{low:g}, {high:g}]"
        )


def _check_corpora(manifest: Mapping[str, Any], path: str) -> None:
    check_type(manifest, _Mixture, path)
    for corpus in manifest["corpora"]:
        name, weight = corpus["name"], corpus["weight"]
        if os.path.basename(name) != name or name in ("", ".", ".."):
            raise InputError(
                f"{path}: corpus {name!r}: the name must not have folders"
            )
        check_weight(weight, shown(weight), f"{path}: corpus {name!r}")


def read_manifest_file(path: str, *, mixtures: bool = False) -> dict[str, Any]:
    """Reads a manifest, which may be that of a mixture only with `mixtures`.

    Raises:
      InputError: if the file was written by another program or version, or is
        the manifest of a mixture and may not be.
    """
    try:
        manifest = read_json(path)
    except InputError as error:
        raise InputError(
            f"{error}, so not a manifest of pretraining data; create the data "
            "again"
        ) from None
    if manifest.get("format") not in (_FORMAT, MIXTURE_FORMAT):
        raise InputError(f"{path}: not a manifest of pretraining data")
    if manifest.get("version") != VERSION:
        raise InputError(
            f"{path}: version {manifest.get('version')} is not supported, only "
            f"{VERSION}; create the data again"
        )
    if is_mixture(manifest):
        if not mixtures:
            raise InputError(
                f"{path}: a mixture of corpora; name its folder alone, or the "
                "folders of its corpora"
            )
        _check_corpora(manifest, path)
        return manifest
    check_type(manifest, _Manifest, path)
    if manifest["settings"]["max_seq_length"] < 3:
        raise InputError(
            f"{path}: settings.max_seq_length="
            f"{manifest['settings']['max_seq_length']} must be at least 3; "
            "create the data again"
        )
    sequences = manifest["settings"].get("max_sequences_per_row", 0)
    packed = manifest["settings"].get("pack", False)
    if packed != (1 <= sequences <= 1024):
        raise InputError(
            f"{path}: settings.max_sequences_per_row={sequences} must be from "
            "1 to 1024 with pack, and absent without; create the data again"
        )
    for name, split in manifest["splits"].items():
        for file in split["files"]:
            if os.path.basename(file["name"]) != file["name"]:
                raise InputError(
                    f"{path}: file {file['name']!r} of split {name} must be a "
                    "name without folders"
                )
    return manifest


def sequences_per_row(manifest: Mapping[str, Any] | None) -> int:
    """Returns the maximum number of sequences in a training record."""
    settings = manifest["settings"] if manifest else {}
    return settings.get("max_sequences_per_row", 1)


def describe_tokenizer(tokenizer: Tokenizer) -> dict[str, Any]:
    """Returns the entry of a tokenizer in a manifest."""
    return {
        "file": tokenizer.file_name,
        "fingerprint": tokenizer.fingerprint,
        "vocab_size": tokenizer.vocab_size,
        **tokenizer.settings,
    }


def build_manifest(
    config: PretrainingDataConfig,
    *,
    inputs: list[dict[str, object]],
    oddities: Mapping[str, int],
    counts: Mapping[str, collections.Counter[str]],
    label_counts: Mapping[str, np.ndarray],
    files: Mapping[str, Mapping[int, list[dict[str, Any]]]],
) -> dict[str, Any]:
    """Builds the manifest of a data set, without absolute paths.

    Args:
      config: the settings.
      inputs: what `describe_inputs` returns.
      oddities: counts of `ODDITIES` in the text.
      counts: split -> statistics, summed over its blocks.
      label_counts: split -> int64 `[vocab_size]`, how often each id is a label.
      files: split -> shard -> name, records, bytes and sha256 of its files.
    """
    tokenizer = config.tokenizer
    # The most frequent training label is the baseline of masked LM accuracy.
    frequent = rank_labels(label_counts["train"])
    guess = frequent[0]
    splits = {
        name: _describe_split(
            [file for _, found in sorted(shards.items()) for file in found],
            counts[name],
            config.passes(name),
            config.max_seq_length,
        )
        | {
            "constant_guess_accuracy": _ratio(
                int(label_counts[name][guess]), int(label_counts[name].sum())
            ),
            "frequent_labels": describe_labels(label_counts[name], frequent),
        }
        for name, shards in files.items()
    }
    return {
        "format": _FORMAT,
        "version": VERSION,
        "settings": config.settings()
        | {"num_shards": len(splits["train"]["files"])},
        "tokenizer": describe_tokenizer(tokenizer),
        "inputs": inputs,
        "oddities": {name: oddities[name] for name in ODDITIES},
        "constant_guess": {"id": guess, "piece": tokenizer.id_to_piece(guess)},
        "splits": splits,
        "versions": package_versions(),
    }


def describe_inputs(
    files: Sequence[TextPath], digest: Callable[[TextPath], str] = sha256
) -> list[dict[str, object]]:
    """Returns name, bytes and sha256, by `digest`, of each file.

    The names of local files are their paths relative to a common folder.
    """
    local = [x.absolute() for x in files if isinstance(x, pathlib.Path)]
    base = os.path.commonpath([path.parent for path in local]) if local else ""
    return [
        {
            "name": path
            if isinstance(path, str)
            else path.absolute().relative_to(base).as_posix(),
            "bytes": size_of(path),
            "sha256": digest(path),
        }
        for path in files
    ]


def serialize_manifest(manifest: Mapping[str, Any]) -> bytes:
    """Returns the content of `manifest.json`."""
    text = json.dumps(manifest, indent=2, ensure_ascii=False)
    return f"{text}\n".encode()


def package_versions() -> dict[str, str]:
    """Returns the versions of the packages that the records depend on."""
    return {"python": platform.python_version()} | {
        name: importlib.metadata.version(name) for name in _PACKAGES
    }


def _describe_split(
    files: list[dict[str, object]],
    counts: collections.Counter[str],
    passes: int,
    max_seq_length: int,
) -> dict[str, Any]:
    """Returns the manifest's entry for a split.

    The counts of chunks and records are summed over the passes, too.
    """
    names = (
        "documents",
        "sentences",
        *("tokens", "unknown_tokens"),
        "chunks",
        "one_sentence_chunks",
        *("dropped_chunks", "dropped_identical_pairs"),
        "truncated_pairs",
        *("instances", "pairs"),
        "kept_tokens",
        "input_tokens",
        "predictions",
    )
    if "sequences" in counts:  # packed records
        names += ("sequences",)
    instances = counts["instances"]
    description = {
        "files": files,
        "passes": passes,
        "counts": {name: counts[name] for name in names},
        "padding_fraction": 1
        - _ratio(counts["input_tokens"], instances * max_seq_length),
        # [CLS] and [SEP] included. With dynamic masking, of one drawn mask.
        "masking_rate": _ratio(counts["predictions"], counts["input_tokens"]),
        # Share of the text's tokens that are in a record.
        "kept_fraction": _ratio(
            counts["kept_tokens"], counts["tokens"] * passes
        ),
    }
    if "label_1" in counts:  # otherwise labels are drawn in training
        ones = counts["label_1"]
        description["labels"] = {"0": counts["pairs"] - ones, "1": ones}
    return description


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
