"""Record files: found, described, and grouped by corpus."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent import futures
from typing import Any

import tensorflow as tf

from albert_tf.data.data_config import MaskingConfig
from albert_tf.data.manifest import SPLITS, read_manifest
from albert_tf.data.mixture import Corpus, ManifestReader, corpus_sizes
from albert_tf.data.record_checks import count_records
from albert_tf.errors import InputError
from albert_tf.files import PathPatterns, is_remote, split_patterns

_PARALLEL_REQUESTS = 16

# Settings of create-data that determine how training masks text records.
_TEXT_SETTINGS = (
    "sentence_order",
    "pack",
    "max_sequences_per_row",
    *(field.name for field in dataclasses.fields(MaskingConfig)),
)

# Settings that are not recorded where they have these values.
_MISSING = {
    "pack": False,
    "max_sequences_per_row": False,
    "word_starts": MaskingConfig.word_starts,
}
# Enough to tell files of equal names apart without reading remote ones whole.
_IDENTIFYING_BYTES = 65536


@dataclasses.dataclass(frozen=True)
class RecordFile:
    """A TFRecord file.

    Attributes:
      path: its path, on any file system that TensorFlow supports.
      manifest: the manifest in the same folder, if it lists the file.
      counted_records: number of records, if known.
      corpus: name of its corpus in a mixture.
    """

    path: str
    manifest: dict[str, Any] | None = dataclasses.field(
        default=None, repr=False, compare=False
    )
    counted_records: int | None = None
    corpus: str = ""

    @functools.cached_property
    def num_records(self) -> int:
        """Number of records, counted if necessary."""
        if self.counted_records is not None:
            return self.counted_records
        return count_records(self.path)

    @property
    def identity(self) -> Any:
        """The manifest; without one, the name and a hash of the first bytes."""
        if self.manifest is not None:
            return self.manifest
        with tf.io.gfile.GFile(self.path, "rb") as opened:
            start = hashlib.sha256(opened.read(_IDENTIFYING_BYTES))
        return [os.path.basename(self.path), start.hexdigest()]

    def check_count(self, found: int) -> None:
        """Raises an `InputError` if another number of records was read."""
        if found != self.num_records:
            source = "its manifest says" if self.manifest else "it had"
            raise InputError(
                f"records {self.path}: {found} records, but {source} "
                f"{self.num_records}; copy the folder again, or make the data "
                "again"
            )

    @functools.cached_property
    def text_settings(self) -> dict[str, Any] | None:
        """Settings of the manifest, if the file has text records."""
        if self.manifest is None:
            return None
        settings = self.manifest["settings"]
        name = os.path.basename(self.path)
        for_training = name.startswith(SPLITS["train"])
        is_text = settings["masking"] == "dynamic" and for_training
        return settings if is_text else None

    @property
    def is_text(self) -> bool:
        """Whether records are text that is masked in training."""
        return self.text_settings is not None


def find_record_files(
    patterns: Iterable[str],
    split: str,
    manifest_in: ManifestReader,
) -> tuple[RecordFile, ...]:
    """Finds record files and their manifests.

    Patterns are folders of `create_pretraining_data`, from which `split` is
    read, files or globs. `manifest_in` is `find_manifest`, possibly cached.

    Returns:
      The files without duplicates, sorted within each pattern.

    Raises:
      InputError: if a pattern matches nothing, a folder has no manifest or no
        such split, or a file is missing or does not have the size in its
        manifest.
    """
    files: dict[str, RecordFile] = {}
    for pattern in patterns:
        if tf.io.gfile.isdir(pattern):
            folder = os.path.dirname(os.path.join(pattern, ""))
            manifest = manifest_in(folder) or read_manifest(folder)
            paths = _split_paths(folder, split, manifest)
        elif tf.io.gfile.exists(pattern):
            paths = [pattern]  # The name itself may contain glob characters.
        else:
            paths = sorted(tf.io.gfile.glob(pattern)) if pattern else []
        if not paths:
            raise InputError(
                f"records {pattern!r}: no such file; check the path or the "
                "pattern"
            )
        for folder, group in itertools.groupby(paths, os.path.dirname):
            for file in _record_files(group, manifest_in(folder)):
                files[file.path] = file
    return tuple(files.values())


def _split_paths(
    folder: str, split: str, manifest: dict[str, Any]
) -> list[str]:
    splits = manifest["splits"]
    if split not in splits:
        raise InputError(
            f"{folder}: no split {split!r}, only {', '.join(splits)}; make the "
            "data with heldout_fraction, or name record files"
        )
    names = [file["name"] for file in splits[split]["files"]]
    return [os.path.join(folder, name) for name in names]


def _record_files(
    paths: Iterable[str], manifest: dict[str, Any] | None
) -> list[RecordFile]:
    """Returns files of one folder, checked against its manifest."""
    entries = {
        entry["name"]: entry
        for split in (manifest or {"splits": {}})["splits"].values()
        for entry in split["files"]
    }

    def describe(path: str) -> RecordFile:
        entry = entries.get(os.path.basename(path))
        if entry is not None:
            _check_size(path, entry["bytes"])
        # Reading whole remote files would take too long: they are counted while
        # training reads them. The first record shows that it is a TFRecord.
        is_whole = not is_remote(path)
        records = count_records(path, most=None if is_whole else 1)
        if entry is None:
            return RecordFile(path, None, records if is_whole else None)
        file = RecordFile(path, manifest, entry["records"])
        if is_whole:
            file.check_count(records)
        return file

    # One after the other, a thousand files in a bucket would take a minute.
    with futures.ThreadPoolExecutor(_PARALLEL_REQUESTS) as pool:
        return list(pool.map(describe, paths))


def _check_size(path: str, expected: int) -> None:
    try:
        size = tf.io.gfile.stat(path).length
    except tf.errors.NotFoundError:
        raise InputError(
            f"records {path}: missing, but the manifest lists it; copy it there"
        ) from None
    if size != expected:
        raise InputError(
            f"records {path}: {size} bytes, but its manifest says {expected}; "
            "copy the file again, or make the data again"
        )


def check_one_vocabulary(files: Iterable[RecordFile]) -> None:
    """Raises an `InputError` if the tokenizers in the manifests differ."""
    described = [(file, file.manifest) for file in files if file.manifest]
    for file, manifest in described:
        first, first_manifest = described[0]
        if manifest is first_manifest:
            continue
        found, expected = manifest["tokenizer"], first_manifest["tokenizer"]
        if found["fingerprint"] != expected["fingerprint"]:
            raise InputError(
                f"records {file.path}: made with a different vocabulary than "
                f"{first.path}; make all data with the same tokenizer"
            )
        _check_equal(file, first, found, expected, sorted(found))


def check_one_format(files: Sequence[RecordFile]) -> None:
    """Raises an `InputError` if files cannot be read as one dataset.

    They can if all or none have text records, with equal masking.
    """
    first = files[0]
    for file in files:
        if file.is_text != first.is_text:
            text, masked = (file, first) if file.is_text else (first, file)
            raise InputError(
                f"records {text.path}: text to be masked in training, but "
                f"{masked.path} is already masked; make all data with the same "
                "--masking"
            )
        names = _TEXT_SETTINGS if file.is_text else ("sentence_order",)
        if file.manifest and first.manifest:
            settings = file.manifest["settings"]
            expected = first.manifest["settings"]
            _check_equal(file, first, settings, expected, names)


def _check_equal(
    file: RecordFile,
    first: RecordFile,
    settings: Mapping[str, Any],
    expected: Mapping[str, Any],
    names: Iterable[str],
) -> None:
    """Raises an `InputError` if settings of two files differ."""
    for name in names:
        missing = _MISSING.get(name)
        value, other = (x.get(name, missing) for x in (settings, expected))
        if value != other:
            raise InputError(
                f"records {file.path}: made with {name}={value}, but "
                f"{first.path} with {other}; make all data with the same "
                "settings"
            )


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
        scored = [x for x in corpora if _holds_out(x.pattern, manifest_in)]
        if heldout and scored:
            files["heldout"] = _find_files(scored, "heldout", manifest_in)
        return files
    patterns = split_patterns(patterns)
    files = {split: find_record_files(patterns, split, manifest_in)}
    folders = [x for x in patterns if _holds_out(x, manifest_in)]
    if heldout and folders:
        files["heldout"] = find_record_files(folders, "heldout", manifest_in)
    return files


def _holds_out(pattern: str, manifest_in: ManifestReader) -> bool:
    """Returns whether a pattern is a folder with a split of held-out records.

    Files that are named by patterns are all for training.
    """
    if not tf.io.gfile.isdir(pattern):
        return False
    manifest = manifest_in(os.path.dirname(os.path.join(pattern, "")))
    return manifest is not None and "heldout" in manifest["splits"]


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

    Sizes are the numbers of documents, tokens and records of its data sets, and
    None if a file has no manifest. `files` are those of all splits.
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
        sizes: dict[str, Any] = corpus_sizes(splits)
        if None in manifests.values():
            sizes = dict.fromkeys(sizes)
        described.append(
            {"name": corpus.name, "weight": corpus.weight, **sizes}
        )
    return described
