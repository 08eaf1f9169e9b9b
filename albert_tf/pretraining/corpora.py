"""Corpora that are mixed by weight: `wiki=0.7:wiki/*.txt,books=0.3:...`."""

from __future__ import annotations

import dataclasses
import math
import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.files import PathPatterns, exists, split_patterns
from albert_tf.pretraining.manifest import is_mixture, read_manifest
from albert_tf.pretraining.record_files import RecordFile, find_record_files
from albert_tf.pretraining.record_order import GROUP_RECORDS

# No name or weight has a slash or a colon, so URLs and paths of Windows are
# none, whatever follows.
_CORPUS = re.compile(r"([^=:/\\]*)=([^:/\\]*):(.+)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")

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


def quotas_of(corpora: Sequence[Corpus], size: int) -> list[int]:
    """Splits a number of records by weights, largest remainders rounded up.

    Args:
      corpora: the corpora; none are one that is not mixed.
      size: the number to split.

    Raises:
      InputError: a weight is too small for one record.
    """
    shares = [corpus.weight * size for corpus in corpora] or [size]
    quotas = [math.floor(share) for share in shares]
    by_remainder = sorted(
        range(len(shares)), key=lambda i: (quotas[i] - shares[i], i)
    )
    for i in by_remainder[: size - sum(quotas)]:
        quotas[i] += 1
    if 0 in quotas:
        corpus = corpora[quotas.index(0)]
        raise InputError(
            f"corpus {corpus.name}: a share of {corpus.weight:.2g} gives it "
            f"none of {size} records; raise its weight to 1/{size} of all, or "
            "leave it out"
        )
    return quotas


def find_splits(
    patterns: PathPatterns,
    corpora: Sequence[Corpus],
    split: str,
    heldout: bool,
    manifest_in: ManifestReader,
) -> dict[str, tuple[RecordFile, ...]]:
    """Finds the files of splits; see `open_records`.

    Returns:
      Those of `split` and, if wanted and there are any, "heldout".
    """
    if corpora:
        files = {split: _find_files(corpora, split, manifest_in)}
        scored = [
            corpus
            for corpus in corpora
            if tf.io.gfile.isdir(corpus.pattern)
            and "heldout" in read_manifest(corpus.pattern)["splits"]
        ]
        if heldout and scored:
            files["heldout"] = _find_files(scored, "heldout", manifest_in)
        return files
    patterns = split_patterns(patterns)
    files = {split: find_record_files(patterns, split, manifest_in)}
    manifest = files[split][0].manifest
    if heldout and manifest and "heldout" in manifest["splits"]:
        # Patterns of files have no split: they all are for training.
        folders = [path for path in patterns if tf.io.gfile.isdir(path)]
        if folders:
            files["heldout"] = find_record_files(
                folders, "heldout", manifest_in
            )
    return files


def _find_files(
    corpora: Iterable[Corpus], split: str, manifest_in: ManifestReader
) -> tuple[RecordFile, ...]:
    files: dict[str, RecordFile] = {}
    for corpus in corpora:
        for file in find_record_files([corpus.pattern], split, manifest_in):
            other = files.setdefault(
                file.path, dataclasses.replace(file, corpus=corpus.name)
            )
            if other.corpus != corpus.name:
                raise InputError(
                    f"records {file.path}: in the corpora {other.corpus} and "
                    f"{corpus.name}; name it in one of them"
                )
    return tuple(files.values())


def by_corpus(files: Iterable[RecordFile]) -> dict[str, list[RecordFile]]:
    """Returns files by corpus, "" where none are mixed."""
    groups: dict[str, list[RecordFile]] = {}
    for file in files:
        groups.setdefault(file.corpus, []).append(file)
    return groups


def describe_mixture(
    corpora: Sequence[Corpus], files: Iterable[RecordFile], examples: int
) -> str:
    """Returns a line on shares and epochs of corpora.

    Args:
      corpora: the corpora.
      files: their files.
      examples: records that are read of all.
    """
    parts = []
    quotas = quotas_of(corpora, GROUP_RECORDS)
    for (name, those), quota in zip(
        by_corpus(files).items(), quotas, strict=True
    ):
        share = quota / GROUP_RECORDS
        records = sum(file.num_records for file in those)
        parts.append(
            f"{name} {share:.1%}, {records:,} records, "
            f"{examples * share / records:.2f} epochs"
        )
    return "; ".join(parts)
