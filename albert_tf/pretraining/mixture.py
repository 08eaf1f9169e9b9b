"""Corpora that are mixed by weight: `wiki=0.7:wiki/*.txt,books=0.3:...`."""

from __future__ import annotations

import dataclasses
import math
import os
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from albert_tf.errors import InputError
from albert_tf.files import (
    PathPatterns,
    exists,
    local_path,
    split_patterns,
    write_atomically,
)
from albert_tf.pretraining.data_config import PretrainingDataConfig
from albert_tf.pretraining.manifest import (
    MANIFEST_NAME,
    MIXTURE_FORMAT,
    VERSION,
    describe_inputs,
    find_any_manifest,
    find_manifest,
    is_mixture,
    serialize_manifest,
)
from albert_tf.pretraining.text_files import TextPath, find_text_files

# No name or weight has a slash or a colon, so URLs and paths of Windows are
# none, whatever follows.
_CORPUS = re.compile(r"([^=:/\\]*)=([^:/\\]*):(.+)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")

# Name in the manifest of a mixture -> that in the counts of a split.
SIZES_OF_CORPUS = {
    "documents": "documents",
    "tokens": "tokens",
    "records": "instances",
}

ManifestReader = Callable[[str], dict[str, Any] | None]


@dataclasses.dataclass(frozen=True)
class Corpus:
    """A part of a mixture.

    Attributes:
      name: letters, digits, "-" and "_".
      weight: share of the records, of 1 over all corpora.
      pattern: where its text or its records are.
    """

    name: str
    weight: float
    pattern: str


def parse_corpora(patterns: PathPatterns) -> tuple[Corpus, ...]:
    """Parses `NAME=WEIGHT:PATTERN`, one for each corpus.

    Weights are relative: 7 and 3 are 0.7 and 0.3. An existing path of that form
    is a path.

    Args:
      patterns: see `split_patterns`.

    Returns:
      The corpora; none if all patterns are plain.

    Raises:
      InputError: only some patterns have names, a name is used twice or is no
        name, or a weight is not above 0.
    """
    parts = split_patterns(patterns)
    found = [_CORPUS.fullmatch(part) for part in parts]
    found = [
        None if match and exists(match.string) else match for match in found
    ]
    if not any(found):
        return ()
    weights: dict[str, tuple[float, str]] = {}
    for part, match in zip(parts, found, strict=True):
        if match is None:
            raise InputError(
                f"{part!r} has no name and weight, but others have; give each "
                "corpus as NAME=WEIGHT:PATTERN"
            )
        name, weight, pattern = match.groups()
        if not _NAME.fullmatch(name):
            raise InputError(
                f"{part!r}: the name {name!r} must be letters, digits, '-' and "
                "'_'"
            )
        if name in weights:
            raise InputError(
                f"{part!r}: there is a corpus {name!r} already; use another "
                "name, or one pattern that matches the files of both"
            )
        weights[name] = _parse_weight(weight, part), pattern.strip()
    return _normalized(
        Corpus(name, weight, pattern)
        for name, (weight, pattern) in weights.items()
    )


def find_corpora(
    patterns: PathPatterns, manifest_in: ManifestReader
) -> tuple[Corpus, ...]:
    """Returns the corpora of a folder made of several, or `parse_corpora`.

    Args:
      patterns: folders, files and patterns of records.
      manifest_in: `find_any_manifest`, perhaps with a cache.
    """
    parts = split_patterns(patterns)
    folder = os.path.dirname(os.path.join(parts[0], ""))
    mixture = manifest_in(folder) if len(parts) == 1 else None
    if mixture is None or not is_mixture(mixture):
        return parse_corpora(patterns)
    return _normalized(
        Corpus(x["name"], x["weight"], os.path.join(folder, x["name"]))
        for x in mixture["corpora"]
    )


def _normalized(corpora: Iterable[Corpus]) -> tuple[Corpus, ...]:
    """Scales weights so that they add up to 1."""
    corpora = tuple(corpora)
    total = math.fsum(corpus.weight for corpus in corpora)
    return tuple(
        dataclasses.replace(corpus, weight=corpus.weight / total)
        for corpus in corpora
    )


def _parse_weight(text: str, part: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not 0 < weight < math.inf:
        raise InputError(
            f"{part!r}: the weight {text!r} must be a number above 0"
        )
    return weight


def patterns_of(patterns: PathPatterns) -> list[str]:
    """Returns the patterns without names and weights."""
    corpora = parse_corpora(patterns)
    return [corpus.pattern for corpus in corpora] or split_patterns(patterns)


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
    files = find_corpus_files(corpora, config.data_dir)
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
            for key, count in SIZES_OF_CORPUS.items()
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


def find_corpus_files(
    corpora: Sequence[Corpus], data_dir: str | None
) -> dict[str, list[TextPath]]:
    """Returns the text files of each corpus.

    Args:
      corpora: the corpora.
      data_dir: see `find_text_files`.

    Raises:
      InputError: see `find_text_files`; or a file belongs to two corpora, or is
        the same file.
    """
    files = {
        corpus.name: find_text_files([corpus.pattern], data_dir)
        for corpus in corpora
    }
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
    return files


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
