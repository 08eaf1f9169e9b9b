"""Record files of the corpora of a mixture."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.files import PathPatterns, split_patterns
from albert_tf.pretraining.manifest import read_manifest
from albert_tf.pretraining.mixture import (
    SIZES_OF_CORPUS,
    Corpus,
    ManifestReader,
)
from albert_tf.pretraining.record_files import RecordFile, find_record_files
from albert_tf.pretraining.record_order import GROUP_RECORDS


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


def describe_corpora(
    corpora: Sequence[Corpus], files: Iterable[RecordFile]
) -> list[dict[str, Any]]:
    """Returns name, weight and sizes of each corpus, for a run's manifest.

    Sizes are those of the data sets that the corpus's record files are of,
    among them `tokens` of their text; None if some have no manifest.

    Args:
      corpora: the corpora.
      files: their files, of all splits.
    """
    groups = by_corpus(files)
    described = []
    for corpus in corpora:
        manifests = {id(x.manifest): x.manifest for x in groups[corpus.name]}
        splits = [
            split
            for manifest in manifests.values()
            for split in (manifest or {"splits": {}})["splits"].values()
        ]
        sizes = {
            name: sum(split["counts"][count] for split in splits)
            for name, count in SIZES_OF_CORPUS.items()
        }
        if None in manifests.values():
            sizes = dict.fromkeys(sizes)
        described.append(
            {"name": corpus.name, "weight": corpus.weight, **sizes}
        )
    return described


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
