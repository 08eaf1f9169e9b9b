"""Record files on disk: finding, counting and checking them."""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
from collections.abc import Iterable, Sequence
from concurrent import futures
from typing import Any

import tensorflow as tf

from albert_tf.data.manifest import MANIFEST_NAME, SPLITS, read_manifest
from albert_tf.errors import InputError
from albert_tf.path_patterns import split_patterns

_READ_BUFFER_BYTES = 1 << 20
_PARALLEL_REQUESTS = 16


@dataclasses.dataclass(frozen=True)
class RecordFile:
    """One TFRecord file.

    Attributes:
      path: where it is, on any file system TensorFlow knows.
      manifest: the manifest beside it that lists it, if there is one.
      num_records: what that says; None without a manifest.
    """

    path: str
    manifest: dict[str, Any] | None = dataclasses.field(
        default=None, repr=False, compare=False
    )
    num_records: int | None = None


def find_record_files(
    patterns: str | os.PathLike[str] | Sequence[str], split: str = "train"
) -> list[RecordFile]:
    """Finds record files and what their manifests say of them.

    Args:
      patterns: glob patterns or folders of `create_pretraining_data`, separated
        by commas or as a list.
      split: which split of a folder, "train" or "heldout".

    Returns:
      The files, each once, sorted within a pattern.

    Raises:
      InputError: nothing matches, a folder has no manifest or no such split, or
        a file is missing or has another size than its manifest says.
    """
    if split not in SPLITS:
        raise InputError(f"split={split!r} must be one of {', '.join(SPLITS)}")
    files: dict[str, RecordFile] = {}
    for pattern in split_patterns(patterns):
        if tf.io.gfile.isdir(pattern):
            paths = _split_paths(pattern, split)
        elif tf.io.gfile.exists(pattern):
            paths = [pattern]  # perhaps with the characters of a pattern
        else:
            paths = sorted(tf.io.gfile.glob(pattern)) if pattern else []
        if not paths:
            raise InputError(
                f"records {pattern!r}: no such file; check the path or pattern"
            )
        for folder, group in itertools.groupby(paths, os.path.dirname):
            files |= {file.path: file for file in _record_files(folder, group)}
    return list(files.values())


def _split_paths(folder: str, split: str) -> list[str]:
    splits = read_manifest(folder)["splits"]
    if split not in splits:
        raise InputError(
            f"{folder}: has no split {split!r} but {', '.join(splits)}; make "
            "the data with a heldout_fraction, or name record files"
        )
    return [
        os.path.join(folder, file["name"]) for file in splits[split]["files"]
    ]


def _record_files(folder: str, paths: Iterable[str]) -> list[RecordFile]:
    """Returns what the manifest of a folder, if any, says of its files."""
    if not tf.io.gfile.exists(os.path.join(folder, MANIFEST_NAME)):
        return [RecordFile(path) for path in paths]
    manifest = read_manifest(folder)
    entries = {
        entry["name"]: entry
        for split in manifest["splits"].values()
        for entry in split["files"]
    }

    def check(path: str) -> RecordFile:
        entry = entries.get(os.path.basename(path))
        if entry is None:
            return RecordFile(path)
        _check_size(path, entry["bytes"])
        return RecordFile(path, manifest, entry["records"])

    # In a bucket a thousand files would take a minute one after the other.
    with futures.ThreadPoolExecutor(_PARALLEL_REQUESTS) as pool:
        return list(pool.map(check, paths))


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


def open_records(path: str | tf.Tensor) -> tf.data.TFRecordDataset:
    """Returns the serialized records of a file; a name in `.gz` is unpacked."""
    is_gzip = tf.strings.regex_full_match(path, r".*\.gz")
    compression = tf.where(is_gzip, "GZIP", "")
    return tf.data.TFRecordDataset(
        path, compression, buffer_size=_READ_BUFFER_BYTES
    )


def count_records(path: str) -> int:
    """Reads a file to its end, checks the sums in it, and counts the records.

    Raises:
      InputError: the file cannot be read to its end.
    """
    batches = open_records(path).batch(1024)
    count = 0
    try:
        for batch in batches:
            count += len(batch)
    except tf.errors.OpError as error:
        raise damaged(path, error) from None
    return count


def damaged(path: str, error: tf.errors.OpError) -> InputError:
    """Returns the error to raise for a file that TensorFlow cannot read."""
    # Without the names of TensorFlow's operations around the message.
    reason = re.sub(r"\{\{.*?\}\}|\[Op:.*", "", error.message).strip()
    return InputError(
        f"records {path}: not a whole TFRecord file ({reason}); copy it again, "
        "or make the data again"
    )
