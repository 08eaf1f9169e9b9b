"""TFRecord files of pretraining examples: found, described and sampled."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent import futures
from typing import Any

import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.files import is_remote
from albert_tf.pretraining.data_config import MaskingConfig
from albert_tf.pretraining.dynamic_examples import CHUNK_FEATURES
from albert_tf.pretraining.manifest import SPLITS, read_manifest
from albert_tf.pretraining.packed_rows import ROW_FEATURES
from albert_tf.pretraining.record_checks import (
    PARSE_ERRORS,
    count_records,
    damaged,
    read_records,
)
from albert_tf.pretraining.record_writer import parse_example

_PARALLEL_REQUESTS = 16
_SAMPLE_RECORDS = 1000

# Settings of create-data that training follows in records of text.
_TEXT_SETTINGS = (
    "sentence_order",
    "pack",
    "max_sequences_per_row",
    *(field.name for field in dataclasses.fields(MaskingConfig)),
)

# `token_boundary`, the eighth of Google's features, is of no use in training.
_READ_FEATURES = frozenset(
    {
        "input_ids",
        "input_mask",
        "segment_ids",
        "masked_lm_positions",
        "masked_lm_ids",
        "masked_lm_weights",
        "next_sentence_labels",
    }
)


@dataclasses.dataclass(frozen=True)
class RecordFile:
    """One TFRecord file.

    Attributes:
      path: location, on any file system TensorFlow knows.
      manifest: the manifest beside it that lists it, if there is one.
      counted_records: number of records; None where nobody has counted them.
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
        """Number of records; a remote file without a manifest is read."""
        if self.counted_records is not None:
            return self.counted_records
        return count_records(self.path)

    def check_count(self, found: int) -> None:
        """Checks the number of records that the file was found to have.

        Raises:
          InputError: it is another one than was counted, or than the manifest
            says.
        """
        if found != self.num_records:
            said = "its manifest says" if self.manifest else "it had"
            raise InputError(
                f"records {self.path}: {found} records, but {said} "
                f"{self.num_records}; copy the folder again, or make the data "
                "again"
            )

    @functools.cached_property
    def text_settings(self) -> dict[str, Any] | None:
        """The manifest's settings, if training masks these records of text."""
        if self.manifest is None:
            return None
        settings = self.manifest["settings"]
        name = os.path.basename(self.path)
        for_training = name.startswith(SPLITS["train"])
        is_text = settings.get("masking") == "dynamic" and for_training
        return settings if is_text else None

    @property
    def is_text(self) -> bool:
        """Whether records hold text, which is masked while a model trains."""
        return self.text_settings is not None


@dataclasses.dataclass(frozen=True)
class Sample:
    """Sizes and token ids of the first records of a file.

    Attributes:
      max_seq_length: tokens of each record.
      max_predictions_per_seq: predictions of each record.
      largest_id: largest token id.
    """

    max_seq_length: int
    max_predictions_per_seq: int
    largest_id: int


def find_record_files(
    patterns: Iterable[str],
    split: str,
    manifest_in: Callable[[str], dict[str, Any] | None],
) -> tuple[RecordFile, ...]:
    """Finds record files and what their manifests say about them.

    Args:
      patterns: folders of `create_pretraining_data`, files or glob patterns.
      split: the split of folders to find.
      manifest_in: `find_manifest`, perhaps with a cache.

    Returns:
      The files, each once, sorted within a pattern.

    Raises:
      InputError: nothing matches, a folder has no manifest or no such split, or
        a file is missing or has another size than its manifest says.
    """
    files: dict[str, RecordFile] = {}
    for pattern in patterns:
        if tf.io.gfile.isdir(pattern):
            folder = os.path.dirname(os.path.join(pattern, ""))
            manifest = manifest_in(folder) or read_manifest(folder)
            paths = _split_paths(folder, split, manifest)
        elif tf.io.gfile.exists(pattern):
            paths = [pattern]  # perhaps with the characters of a pattern
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
    """Describes files of one folder by its manifest, which must be right."""
    entries = {
        entry["name"]: entry
        for split in (manifest or {"splits": {}})["splits"].values()
        for entry in split["files"]
    }

    def describe(path: str) -> RecordFile:
        entry = entries.get(os.path.basename(path))
        if entry is not None:
            _check_size(path, entry["bytes"])
        if not is_remote(path):
            records = count_records(path)
            if entry is None:
                return RecordFile(path, None, records)
            file = RecordFile(path, manifest, entry["records"])
            file.check_count(records)
            return file
        # One that a manifest lists has the size that this says. It is counted
        # while it is read; its beginning tells whether it holds records.
        count_records(path, most=1)
        return RecordFile(
            path, manifest if entry else None, entry and entry["records"]
        )

    # In a bucket a thousand files would take a minute one after the other.
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
    """Checks that the manifests of all files are of one vocabulary.

    Raises:
      InputError: they are not.
    """
    first: dict[str, str] = {}  # fingerprint -> path
    for file in files:
        if file.manifest is not None:
            fingerprint = file.manifest["tokenizer"].get("fingerprint")
            first.setdefault(fingerprint, file.path)
    if len(first) > 1:
        one, other, *_ = first.values()
        raise InputError(
            f"records {other}: made with another vocabulary than {one}; make "
            "all data with the same tokenizer"
        )


def check_one_format(files: Sequence[RecordFile]) -> None:
    """Checks that files can be read by one dataset.

    Raises:
      InputError: only some hold text, or texts are to be masked differently.
    """
    first = files[0]
    for file in files:
        if file.is_text != first.is_text:
            text, masked = (file, first) if file.is_text else (first, file)
            raise InputError(
                f"records {text.path}: text, to be masked in training, but "
                f"{masked.path} is masked; make all data with one --masking"
            )
        settings, expected = file.text_settings, first.text_settings
        if settings is None or expected is None or settings is expected:
            continue
        for name in _TEXT_SETTINGS:
            # Those of packing are there if records are packed.
            value, other = (x.get(name, False) for x in (settings, expected))
            if value != other:
                raise InputError(
                    f"records {file.path}: made with {name}={value}, but "
                    f"{first.path} with {other}; make all data with the same "
                    "settings"
                )


def sample_records(file: RecordFile) -> Sample | None:
    """Inspects the first thousand records of a file.

    Records of text have no sizes of their own; those of their manifest count.

    Returns:
      What they have in common; None for a file without records.

    Raises:
      InputError: the file cannot be read, holds something else, or its records
        differ in size.
    """
    path = file.path
    try:
        records = next(iter(read_records(path).batch(_SAMPLE_RECORDS)), None)
    except tf.errors.OpError as error:
        raise damaged(path, error.message) from None
    if records is None:
        return None
    try:
        first = parse_example(records[0].numpy())
    except ValueError:
        first = {}
    if "tokens" in first:
        return _sample_text(file, records)
    missing = sorted(_READ_FEATURES.difference(first))
    if missing:
        raise InputError(
            f"records {path}: not pretraining records, for they lack "
            f"{', '.join(missing)}; name files made by create-data"
        )
    tokens = len(first["input_ids"])
    predictions = len(first["masked_lm_positions"])
    spec = {
        "input_ids": tf.io.FixedLenFeature([tokens], tf.int64),
        "masked_lm_ids": tf.io.FixedLenFeature([predictions], tf.int64),
    }
    try:
        ids = tf.io.parse_example(records, spec)
    except PARSE_ERRORS:
        raise InputError(
            f"records {path}: not all have {tokens} tokens and {predictions} "
            "predictions like the first one; make the data again"
        ) from None
    largest = max(int(tf.reduce_max(values)) for values in ids.values())
    return Sample(tokens, predictions, largest)


def _sample_text(file: RecordFile, records: tf.Tensor) -> Sample:
    settings = file.text_settings
    if settings is None:
        raise InputError(
            f"records {file.path}: text without masks, which only the folder "
            "made by create-data says how to read; name the folder"
        )
    features = ROW_FEATURES if settings.get("pack") else CHUNK_FEATURES
    try:
        tokens = tf.io.parse_example(records, features)["tokens"]
    except PARSE_ERRORS:
        raise InputError(
            f"records {file.path}: not all are records of text like the first "
            "one, with tokens, sentence_starts and one document; make the data "
            "again"
        ) from None
    return Sample(
        settings["max_seq_length"],
        settings["max_predictions_per_seq"],
        int(tf.reduce_max(tokens.flat_values)),
    )


def sample_files(files: Sequence[RecordFile]) -> dict[str, Sample]:
    """Samples one file of each manifest, and each file without one."""
    samples: dict[str, Sample] = {}
    manifests: list[dict[str, Any] | None] = []
    for file in files:
        if file.manifest and file.manifest in manifests:
            continue
        sample = sample_records(file)
        if sample is not None:
            samples[file.path] = sample
            manifests.append(file.manifest)
    if not samples:
        raise InputError(
            f"records {files[0].path} (first of {len(files)} files): the files "
            "hold no record"
        )
    return samples


def common_lengths(samples: Mapping[str, Sample]) -> tuple[int, int]:
    """Returns tokens and predictions, which must be those of all samples."""
    first = next(iter(samples.values()))
    for path, sample in samples.items():
        for field, name in (
            ("max_seq_length", "tokens"),
            ("max_predictions_per_seq", "predictions"),
        ):
            size, expected = getattr(sample, field), getattr(first, field)
            if size != expected:
                raise InputError(
                    f"records {path}: {size} {name} a record, not {expected} "
                    "like the others; make all data with the same settings"
                )
    return first.max_seq_length, first.max_predictions_per_seq
