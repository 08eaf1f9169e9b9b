"""Mixtures of weighted corpora: `wiki=0.7:wiki/*.txt,books=0.3:...`."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from albert_tf.data.data_config import PretrainingDataConfig
from albert_tf.data.manifest import (
    MANIFEST_NAME,
    MIXTURE_FORMAT,
    VERSION,
    check_weight,
    describe_inputs,
    describe_tokenizer,
    find_manifest,
    is_mixture,
    package_versions,
    serialize_manifest,
)
from albert_tf.data.text_files import (
    TextPath,
    find_text_files,
    is_folder,
    list_folder,
)
from albert_tf.data.tfds import PREFIX, is_tfds_file
from albert_tf.errors import InputError
from albert_tf.files import (
    PathPatterns,
    real_path,
    split_patterns,
    write_atomically,
)
from albert_tf.input_files import exists, read_bytes

# Names and weights have no slash or colon, so URLs and Windows paths that
# contain a "=" do not match.
_CORPUS = re.compile(r"([^=:/\\]*)=([^:/\\]*):(.+)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")

ManifestReader = Callable[[str], dict[str, Any] | None]


@dataclasses.dataclass(frozen=True)
class Corpus:
    """A corpus of a mixture.

    Attributes:
      name: letters, digits, "-" and "_".
      weight: share of the records; the weights of all corpora add up to 1.
      pattern: glob patterns of its text, or the folder of its records.
    """

    name: str
    weight: float
    pattern: str


def parse_corpora(patterns: PathPatterns) -> tuple[Corpus, ...]:
    """Parses `NAME=WEIGHT:PATTERN,...`, with an item for each corpus.

    Weights are relative: 7 and 3 are equivalent to 0.7 and 0.3. An item that is
    the path of an existing file is not a corpus. The result is empty if no item
    has a name and weight.

    Raises:
      InputError: if only some patterns have names, a name is invalid or used
        twice, or a weight is not above 0.
    """
    items = split_patterns(patterns)
    matches = [
        None if match and exists(match.string) else match
        for match in map(_CORPUS.fullmatch, items)
    ]
    if not any(matches):
        return ()
    corpora: dict[str, Corpus] = {}
    for item, match in zip(items, matches, strict=True):
        if match is None:
            raise InputError(
                f"{item!r} has no name and weight, but others have; give each "
                "corpus as NAME=WEIGHT:PATTERN"
            )
        name, weight, pattern = match.groups()
        if not _NAME.fullmatch(name):
            raise InputError(
                f"{item!r}: the name {name!r} must consist of letters, digits, "
                "'-' and '_'"
            )
        if name in corpora:
            raise InputError(
                f"{item!r}: the corpus name {name!r} is already used; use "
                "another name, or one pattern that matches both"
            )
        try:
            value = float(weight)
        except ValueError:
            value = math.nan  # is out of bounds
        check_weight(value, weight, repr(item))
        corpora[name] = Corpus(name, value, pattern.strip())
    return _normalize(corpora.values())


def find_corpora(
    patterns: PathPatterns, manifest_in: ManifestReader
) -> tuple[Corpus, ...]:
    """Returns the corpora of a mixture's folder, or else `parse_corpora`.

    `manifest_in` returns the manifest in a folder, like `find_manifest`.
    """
    items = split_patterns(patterns)
    folder = os.path.dirname(os.path.join(items[0], ""))
    mixture = manifest_in(folder) if len(items) == 1 else None
    if mixture is None or not is_mixture(mixture):
        return parse_corpora(patterns)
    return _normalize(
        Corpus(x["name"], x["weight"], os.path.join(folder, x["name"]))
        for x in mixture["corpora"]
    )


def _normalize(corpora: Iterable[Corpus]) -> tuple[Corpus, ...]:
    """Scales the weights so that they add up to 1."""
    corpora = tuple(corpora)
    total = math.fsum(corpus.weight for corpus in corpora)
    return tuple(
        dataclasses.replace(corpus, weight=corpus.weight / total)
        for corpus in corpora
    )


def plain_patterns(patterns: PathPatterns) -> list[str]:
    """Returns the patterns without names and weights."""
    corpora = parse_corpora(patterns)
    return [corpus.pattern for corpus in corpora] or split_patterns(patterns)


def create_mixture(
    config: PretrainingDataConfig,
    corpora: Sequence[Corpus],
    create: Callable[[PretrainingDataConfig], dict[str, Any]],
) -> dict[str, Any]:
    """Creates a data set for each corpus, and a manifest that lists them.

    The manifest is written last. Corpora that an interrupted run has finished
    are kept if settings and inputs are the same.

    Args:
      config: the settings, in which `input` and `output` are replaced for each
        corpus, and settings that its files do not use are left out.
      corpora: names, weights and patterns of the text.
      create: function that creates a data set and returns its manifest.

    Raises:
      InputError: see `create_pretraining_data`; also if a file belongs to two
        corpora, or the output folder contains other files.
    """
    folder = os.fspath(config.output)
    files = find_corpus_files(corpora, config.data_dir)
    _check_folder(folder, files, config.overwrite)
    configs = {}
    for corpus in corpora:
        with _named(corpus):
            configs[corpus] = _corpus_config(config, corpus, files[corpus.name])
    manifest_file = os.path.join(folder, MANIFEST_NAME)
    before = read_bytes(manifest_file) if exists(manifest_file) else None
    if before is not None:
        # It is missing while the data sets that it lists change. (Beam, which
        # writes remote folders, replaces none.)
        os.unlink(manifest_file)
    manifests: dict[str, dict[str, Any]] = {}
    try:
        for corpus, its in configs.items():
            finished = None
            if before is None:  # Otherwise all are replaced.
                finished = _find_finished(its, files[corpus.name])
            with _named(corpus):
                manifests[corpus.name] = finished or create(its)
    except BaseException:
        if before is not None and not manifests:
            write_atomically(manifest_file, before)  # Nothing has changed.
        raise
    manifest = build_mixture_manifest(
        {corpus.name: corpus.weight for corpus in corpora}, manifests
    )
    write_atomically(manifest_file, serialize_manifest(manifest))
    return manifest


@contextlib.contextmanager
def _named(corpus: Corpus) -> Iterator[None]:
    """Names a corpus in the errors of the block."""
    try:
        yield
    except InputError as error:
        raise InputError(f"corpus {corpus.name}: {error}") from None


def _corpus_config(
    config: PretrainingDataConfig, corpus: Corpus, files: Iterable[TextPath]
) -> PretrainingDataConfig:
    """Returns the settings of a corpus, with the defaults of those not used."""
    defaults: dict[str, Any] = {}
    if not corpus.pattern.startswith(PREFIX):
        defaults["data_dir"] = None
    if config.text_format != "jsonl" and not any(map(is_tfds_file, files)):
        defaults["text_field"] = "text"
    return dataclasses.replace(
        config,
        input=[corpus.pattern],
        output=os.path.join(os.fspath(config.output), corpus.name),
        **defaults,
    )


def build_mixture_manifest(
    weights: Mapping[str, float], manifests: Mapping[str, dict[str, Any]]
) -> dict[str, Any]:
    """Builds the manifest of a mixture.

    It has the name, weight (share of the records in training), number of
    documents, tokens and records of all splits, and record files of each
    corpus, as paths relative to the mixture's folder.

    Args:
      weights: name of each corpus -> its weight.
      manifests: name of each corpus -> its manifest.
    """
    corpora = []
    for name, weight in weights.items():
        splits = manifests[name]["splits"].values()
        files = [
            f"{name}/{file['name']}"
            for split in splits
            for file in split["files"]
        ]
        corpora.append(
            {
                "name": name,
                "weight": weight,
                **corpus_sizes(splits),
                "files": files,
            }
        )
    return {"format": MIXTURE_FORMAT, "version": VERSION, "corpora": corpora}


def corpus_sizes(splits: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Returns the numbers of documents, tokens and records of all splits."""
    counts = [split["counts"] for split in splits]
    return {
        "documents": sum(each["documents"] for each in counts),
        "tokens": sum(each["tokens"] for each in counts),
        "records": sum(each["instances"] for each in counts),
    }


def find_corpus_files(
    corpora: Sequence[Corpus], data_dir: str | None
) -> dict[str, list[TextPath]]:
    """Finds the text files of each corpus; see `find_text_files`.

    Raises:
      InputError: see `find_text_files`; also if a file belongs to two corpora,
        directly or by a link.
    """
    files = {
        corpus.name: find_text_files([corpus.pattern], data_dir)
        for corpus in corpora
    }
    owners: dict[pathlib.Path, str] = {}
    for name, paths in files.items():
        for path in paths:
            owner = owners.setdefault(real_path(path), name)
            if owner != name:
                raise InputError(
                    f"input {path}: in the corpora {owner} and {name}; name it "
                    "in one of them"
                )
    return files


def _check_folder(folder: str, names: Iterable[str], overwrite: bool) -> None:
    """Raises an error if the output folder has files other than corpora."""
    if not exists(folder):
        return
    if not is_folder(folder):
        raise InputError(f"output {folder}: is a file; name a folder")
    # Hidden folders are the progress of interrupted runs.
    present = {name for name in list_folder(folder) if name[0] != "."}
    if find_manifest(folder, mixtures=True) and not overwrite:
        raise InputError(
            f"output {folder}: already holds a finished data set; choose "
            "another folder, or set overwrite"
        )
    others = present.difference(names, [MANIFEST_NAME])
    if others:
        raise InputError(
            f"output {folder}: contains {min(others)}, which is not one of the "
            "corpora; move it away or choose another folder"
        )


def _find_finished(
    config: PretrainingDataConfig, files: list[TextPath]
) -> dict[str, Any] | None:
    """Returns the manifest of a corpus if it has been finished before."""
    manifest = find_manifest(config.output)
    if manifest is None:
        return None
    # The manifest has the number of shards that was chosen by size.
    settings = {
        name: value
        for name, value in config.settings().items()
        if name != "num_shards" or value
    }
    found = {name: manifest["settings"].get(name) for name in settings}
    same = (
        found == settings
        # To replace data may be to make them with another version.
        and (
            not config.overwrite
            or manifest.get("versions") == package_versions()
        )
        and manifest["tokenizer"] == describe_tokenizer(config.tokenizer)
        and manifest["inputs"] == describe_inputs(files)
    )
    return manifest if same else None
