"""Sizes of records, from the first ones of each file."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from albert_tf.data.dynamic_examples import CHUNK_FEATURES, ROW_FEATURES
from albert_tf.data.record_checks import PARSE_ERRORS, damaged, read_records
from albert_tf.data.record_files import RecordFile
from albert_tf.data.tfrecords import FEATURE_OF_INPUT, parse_example
from albert_tf.errors import InputError, counted

_SAMPLE_RECORDS = 1000

# Fewer records may have no predictions by chance.
_SEVERAL_RECORDS = 8


@dataclasses.dataclass(frozen=True)
class Sample:
    """Sizes and largest token id of the first records of a file.

    Attributes:
      max_seq_length: tokens per record.
      max_predictions_per_seq: predictions per record.
      largest_id: largest token id.
      predicts: whether a record predicts a token; True for text.
    """

    max_seq_length: int
    max_predictions_per_seq: int
    largest_id: int
    predicts: bool = True


def sample_records(file: RecordFile) -> Sample | None:
    """Inspects the first records of a file; None if it has none.

    The sizes of text records are those in their manifest.

    Raises:
      InputError: if the file cannot be read, has other contents, or its records
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
    # Training does not use Google's eighth feature, `token_boundary`.
    missing = sorted(set(FEATURE_OF_INPUT.values()).difference(first))
    if missing:
        raise InputError(
            f"records {path}: not pretraining records, because they lack "
            f"{', '.join(missing)}; pass files made by create-data"
        )
    tokens = len(first["input_ids"])
    predictions = len(first["masked_lm_positions"])
    spec = {
        "input_ids": tf.io.FixedLenFeature([tokens], tf.int64),
        "masked_lm_ids": tf.io.FixedLenFeature([predictions], tf.int64),
    }
    try:
        ids = tf.io.parse_example(records, spec)
        predicts = _predict(records)
    except PARSE_ERRORS:
        raise InputError(
            f"records {path}: not all have {tokens} tokens and {predictions} "
            "predictions, as the first one has; make the data again"
        ) from None
    largest = max(int(tf.reduce_max(values)) for values in ids.values())
    return Sample(tokens, predictions, largest, predicts)


def _predict(records: tf.Tensor) -> bool:
    """Returns whether any of some masked records predicts a token."""
    spec = {"masked_lm_weights": tf.io.RaggedFeature(tf.float32)}
    weights = tf.io.parse_example(records, spec)["masked_lm_weights"]
    return bool(tf.reduce_any(weights.flat_values != 0))


def _sample_text(file: RecordFile, records: tf.Tensor) -> Sample:
    settings = file.text_settings
    if settings is None:
        raise InputError(
            f"records {file.path}: text without masks, which cannot be read "
            "without the manifest; pass the folder made by create-data"
        )
    features = ROW_FEATURES if settings.get("pack") else CHUNK_FEATURES
    try:
        tokens = tf.io.parse_example(records, features)["tokens"]
    except PARSE_ERRORS:
        raise InputError(
            f"records {file.path}: not all are text records, as the first one "
            "is, with tokens, sentence_starts and one document; make the data "
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
            "have no records"
        )
    if not any(sample.predicts for sample in samples.values()):
        _check_predictions(files)
    return samples


def _check_predictions(files: Sequence[RecordFile]) -> None:
    """Raises an `InputError` if masked files predict nothing but should.

    A short record, or many of them, may have no prediction: words that are
    longer than its quota are not masked.
    """
    count = 0
    for file in files:
        if file.manifest and not file.manifest["settings"]["masked_lm_prob"]:
            return
        try:
            for batch in read_records(file.path).batch(_SAMPLE_RECORDS):
                if _predict(batch):
                    return
                count += len(batch)
        except PARSE_ERRORS:
            return  # Reading the records explains it.
        except tf.errors.OpError as error:
            raise damaged(file.path, error.message) from None
    if count >= _SEVERAL_RECORDS:
        raise InputError(
            f"records {files[0].path} (first of {counted(len(files), 'file')}):"
            " masked_lm_weights are 0 in all records, so nothing is predicted; "
            "make the data again, with longer records or a vocabulary whose "
            "words are shorter than the predictions of a record (SentencePiece "
            "for scripts without spaces)"
        )


def common_lengths(samples: Mapping[str, Sample]) -> tuple[int, int]:
    """Returns the sequence length and predictions of all samples.

    It is an `InputError` if they differ.
    """
    first = next(iter(samples.values()))
    for path, sample in samples.items():
        for field, name in (
            ("max_seq_length", "tokens"),
            ("max_predictions_per_seq", "predictions"),
        ):
            size, expected = getattr(sample, field), getattr(first, field)
            if size != expected:
                raise InputError(
                    f"records {path}: {size} {name} per record, but others "
                    f"have {expected}; make all data with the same settings"
                )
    return first.max_seq_length, first.max_predictions_per_seq
