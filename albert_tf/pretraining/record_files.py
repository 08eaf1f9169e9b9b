"""TFRecord files of pretraining examples: found, sampled and counted."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import re
from collections.abc import Callable, Iterable
from concurrent import futures
from typing import Any

import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.pretraining.manifest import read_manifest
from albert_tf.pretraining.record_writer import parse_example

_READ_BUFFER_BYTES = 1 << 20
_PARALLEL_REQUESTS = 16
_SAMPLE_RECORDS = 1000

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
      listed_records: number of records by the manifest; None without one.
    """

    path: str
    manifest: dict[str, Any] | None = dataclasses.field(
        default=None, repr=False, compare=False
    )
    listed_records: int | None = None

    @functools.cached_property
    def num_records(self) -> int:
        """Number of records; a file without a manifest is read to count."""
        if self.listed_records is not None:
            return self.listed_records
        return count_records(self.path)


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
    if manifest is None:
        return [RecordFile(path) for path in paths]
    entries = {
        entry["name"]: entry
        for split in manifest["splits"].values()
        for entry in split["files"]
    }

    def describe(path: str) -> RecordFile:
        entry = entries.get(os.path.basename(path))
        if entry is None:
            return RecordFile(path)
        _check_size(path, entry["bytes"])
        return RecordFile(path, manifest, entry["records"])

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


def read_records(path: str | tf.Tensor) -> tf.data.TFRecordDataset:
    """Returns the serialized records of a file; `.gz` is decompressed."""
    is_gzip = tf.strings.regex_full_match(path, r".*\.gz")
    compression = tf.where(is_gzip, "GZIP", "")
    return tf.data.TFRecordDataset(
        path, compression, buffer_size=_READ_BUFFER_BYTES
    )


def count_records(path: str) -> int:
    """Reads a file to its end, verifies its checksums, and counts the records.

    Raises:
      InputError: the file cannot be read to its end.
    """
    count = 0
    try:
        for batch in read_records(path).batch(1024):
            count += len(batch)
    except tf.errors.OpError as error:
        raise _damaged(path, error) from None
    return count


def sample_records(path: str) -> Sample | None:
    """Inspects the first thousand records of a file.

    Returns:
      What they have in common; None for a file without records.

    Raises:
      InputError: the file cannot be read, holds something else, or its records
        differ in size.
    """
    try:
        records = next(iter(read_records(path).batch(_SAMPLE_RECORDS)), None)
    except tf.errors.OpError as error:
        raise _damaged(path, error) from None
    if records is None:
        return None
    try:
        first = parse_example(records[0].numpy())
    except ValueError:
        first = {}
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
    except tf.errors.InvalidArgumentError:
        raise InputError(
            f"records {path}: not all have {tokens} tokens and {predictions} "
            "predictions like the first one; make the data again"
        ) from None
    largest = max(int(tf.reduce_max(values)) for values in ids.values())
    return Sample(tokens, predictions, largest)


def _damaged(path: str, error: tf.errors.OpError) -> InputError:
    # Without the names of TensorFlow's operations around the message.
    reason = re.sub(r"\{\{.*?\}\}|\[Op:.*", "", error.message).strip()
    return InputError(
        f"records {path}: not a whole TFRecord file ({reason}); copy it again, "
        "or make the data again"
    )
