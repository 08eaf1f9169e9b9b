"""Pretraining data of several corpora, each in a folder of its own."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from albert_tf.errors import InputError
from albert_tf.files import local_path, write_atomically
from albert_tf.pretraining.corpora import Corpus
from albert_tf.pretraining.data_config import PretrainingDataConfig
from albert_tf.pretraining.manifest import (
    MANIFEST_NAME,
    MIXTURE_FORMAT,
    VERSION,
    find_any_manifest,
    find_manifest,
    serialize_manifest,
)
from albert_tf.pretraining.text_files import TextPath, find_text_files
from albert_tf.pretraining.units import describe_inputs


def create_mixture(
    config: PretrainingDataConfig,
    corpora: Sequence[Corpus],
    create: Callable[[PretrainingDataConfig], dict[str, Any]],
) -> dict[str, Any]:
    """Makes a data set for each corpus, and a manifest that lists them.

    The manifest is written last. Corpora that an interrupted run has finished
    are kept, if settings and inputs are the same.

    Args:
      config: the settings; those of each corpus but for the input.
      corpora: names, weights and patterns of the text.
      create: makes a data set and returns its manifest.

    Returns:
      The manifest; see `build_mixture_manifest`.

    Raises:
      InputError: see `create_pretraining_data`; or a file belongs to two
        corpora, or the output folder holds something else.
    """
    folder = local_path(config.output)
    files = {
        corpus.name: find_text_files([corpus.pattern]) for corpus in corpora
    }
    _check_distinct(files)
    _check_folder(folder, files, config.overwrite)
    folder.mkdir(parents=True, exist_ok=True)
    # What it lists is about to change.
    (folder / MANIFEST_NAME).unlink(missing_ok=True)
    manifests = {}
    for corpus in corpora:
        part = dataclasses.replace(
            config, input=[corpus.pattern], output=folder / corpus.name
        )
        finished = None
        if not config.overwrite:
            finished = _finished(part, files[corpus.name])
        manifests[corpus.name] = finished or create(part)
    manifest = build_mixture_manifest(
        {corpus.name: corpus.weight for corpus in corpora}, manifests
    )
    write_atomically(folder / MANIFEST_NAME, serialize_manifest(manifest))
    return manifest


def build_mixture_manifest(
    weights: Mapping[str, float], manifests: Mapping[str, dict[str, Any]]
) -> dict[str, Any]:
    """Returns the manifest of several corpora.

    Args:
      weights: name -> share of the records that training reads.
      manifests: name -> manifest in the corpus's folder, which has that name.

    Returns:
      For each corpus name, weight, documents and tokens of all its text,
      records, and record files as paths below the mixture's folder.
    """
    corpora = []
    for name, weight in weights.items():
        splits = manifests[name]["splits"].values()
        counts = {
            key: sum(split["counts"][count] for split in splits)
            for key, count in (
                ("documents", "documents"),
                ("tokens", "tokens"),
                ("records", "instances"),
            )
        }
        files = [
            f"{name}/{file['name']}"
            for split in splits
            for file in split["files"]
        ]
        corpora.append(
            {"name": name, "weight": weight, **counts, "files": files}
        )
    return {"format": MIXTURE_FORMAT, "version": VERSION, "corpora": corpora}


def _check_distinct(files: dict[str, list[TextPath]]) -> None:
    """Checks that no file belongs to two corpora, or is the same file."""
    owners: dict[str, str] = {}
    for name, paths in files.items():
        for path in paths:
            real = path if isinstance(path, str) else os.path.realpath(path)
            owner = owners.setdefault(real, name)
            if owner != name:
                raise InputError(
                    f"input {path}: in the corpora {owner} and {name}; name it "
                    "in one of them"
                )


def _check_folder(
    folder: pathlib.Path, names: dict[str, Any], overwrite: bool
) -> None:
    """Checks that the output folder holds nothing but this mixture."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputError(f"output {folder}: is a file; name a folder")
    # Hidden folders hold what interrupted runs have done.
    present = {path.name for path in folder.iterdir() if path.name[0] != "."}
    if find_any_manifest(os.fspath(folder)) and not overwrite:
        raise InputError(
            f"output {folder}: already holds a finished data set; choose "
            "another folder, or give overwrite"
        )
    others = present.difference(names, [MANIFEST_NAME])
    if others:
        raise InputError(
            f"output {folder}: holds {min(others)}, which is none of the "
            "corpora; move it away or choose another folder"
        )


def _finished(
    config: PretrainingDataConfig, files: list[TextPath]
) -> dict[str, Any] | None:
    """Returns the manifest of a corpus that has been made already."""
    manifest = find_manifest(config.output)
    if manifest is None:
        return None
    # Chosen by size, if it is not given.
    settings = {
        name: value
        for name, value in config.settings().items()
        if name != "num_shards" or value
    }
    found = {name: manifest["settings"].get(name) for name in settings}
    same = (
        found == settings
        and manifest["tokenizer"]["fingerprint"] == config.tokenizer.fingerprint
        and manifest["inputs"] == describe_inputs(files)
    )
    return manifest if same else None
