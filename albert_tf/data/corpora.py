"""Record files of mixtures: how corpora are found, weighted and described."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from albert_tf.data.manifest import read_manifest
from albert_tf.data.mixture import (
    CORPUS_SIZES,
    Corpus,
    ManifestReader,
)
from albert_tf.data.record_files import RecordFile, find_record_files
from albert_tf.data.record_order import GROUP_RECORDS
from albert_tf.errors import InputError
from albert_tf.files import PathPatterns, split_patterns


def compute_quotas(corpora: Sequence[Corpus], size: int) -> list[int]:
    """Divides a number of records by weight (largest remainder method).

    Args:
      corpora: the corpora; if empty, there is a single quota.
      size: the number of records to divide.

    Raises:
      InputError: If a weight is too small for one record.
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
            f"none of {size} records; raise its weight to 1/{size} of the "
            "total, or leave it out"
        )
    return quotas


def find_splits(
    patterns: PathPatterns,
    corpora: Sequence[Corpus],
    split: str,
    heldout: bool,
    manifest_in: ManifestReader,
) -> dict[str, tuple[RecordFile, ...]]:
    """Finds the files of `split` and, if `heldout`, those of that split.

    See `open_records`. The split "heldout" is left out if there is none.
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
        # Files that are named by patterns are all for training.
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


def group_by_corpus(files: Iterable[RecordFile]) -> dict[str, list[RecordFile]]:
    """Groups files by corpus, whose name is "" if there is no mixture."""
    groups: dict[str, list[RecordFile]] = {}
    for file in files:
        groups.setdefault(file.corpus, []).append(file)
    return groups


def describe_corpora(
    corpora: Sequence[Corpus], files: Iterable[RecordFile]
) -> list[dict[str, Any]]:
    """Returns name, weight and sizes of each corpus, for a run's manifest.

    Args:
      corpora: the corpora.
      files: their files, of all splits.

    Returns:
      For each corpus its name, weight, and the numbers of documents, tokens and
      records of its data sets, which are None if a file has no manifest.
    """
    groups = group_by_corpus(files)
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
            for name, count in CORPUS_SIZES.items()
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
    """Returns a line with the share and epochs of each corpus.

    Args:
      corpora: the corpora.
      files: their files.
      examples: number of records that are read from all corpora.
    """
    descriptions = []
    quotas = compute_quotas(corpora, GROUP_RECORDS)
    for (name, group), quota in zip(
        group_by_corpus(files).items(), quotas, strict=True
    ):
        share = quota / GROUP_RECORDS
        records = sum(file.num_records for file in group)
        descriptions.append(
            f"{name} {share:.1%}, {records:,} records, "
            f"{examples * share / records:.2f} epochs"
        )
    return "; ".join(descriptions)
