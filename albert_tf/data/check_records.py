"""Refusing records that do not fit, before a run begins."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from albert_tf.data.record_files import (
    RecordFile,
    count_records,
    damaged,
    find_record_files,
    open_records,
)
from albert_tf.data.records import parse_example
from albert_tf.errors import InputError

# Records of a file whose size and ids are looked at before a run.
_LOOKED_AT = 1000

# `token_boundary`, the eighth of Google's features, is of no use in training.
READ_FEATURES = frozenset(
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


def check_records(
    patterns: str | os.PathLike[str] | Sequence[str],
    *,
    vocab_size: int | None = None,
    max_seq_length: int | None = None,
    max_predictions_per_seq: int | None = None,
    tokenizer_fingerprint: str | None = None,
    split: str = "train",
) -> tuple[int, int]:
    """Refuses records that do not fit, by manifests and first records.

    Files of one manifest, which has their sizes, are all alike: of them one is
    opened, of others each, and its first thousand records are looked at.

    Args:
      patterns: see `find_record_files`.
      vocab_size: token ids must be below; None: not checked, as with the rest.
      max_seq_length: tokens a record must have.
      max_predictions_per_seq: predictions a record must have.
      tokenizer_fingerprint: what a manifest, if there is one, must say.
      split: see `find_record_files`.

    Returns:
      Tokens and predictions of a record.

    Raises:
      InputError: something does not fit; there is no record; a file cannot be
        read or holds something else.
    """
    wanted = {
        "tokens": max_seq_length,
        "predictions": max_predictions_per_seq,
    }
    checked: list[dict[str, Any] | None] = []
    for file in find_record_files(patterns, split):
        if file.manifest and file.manifest in checked:
            continue
        _check_tokenizer(file, vocab_size, tokenizer_fingerprint)
        first = _first_record(file)
        if first is None:
            continue
        checked.append(file.manifest)
        sizes = {
            "tokens": len(first["input_ids"]),
            "predictions": len(first["masked_lm_positions"]),
        }
        for name, size in sizes.items():
            # What nobody asked for, the first file decides for the others.
            if wanted[name] is None:
                wanted[name] = size
            if size != wanted[name]:
                raise InputError(
                    f"records {file.path}: {size} {name} a record, not "
                    f"{wanted[name]}; make the data with that, or set it so"
                )
        largest = _largest_id(file, sizes)
        if vocab_size is not None and largest >= vocab_size:
            raise InputError(
                f"records {file.path}: token id {largest} is not below "
                f"vocab_size={vocab_size}; use the vocabulary of the data"
            )
    if not checked:
        raise InputError(f"records {patterns}: the files hold no record")
    return wanted["tokens"], wanted["predictions"]


def _check_tokenizer(
    file: RecordFile, vocab_size: int | None, fingerprint: str | None
) -> None:
    if file.manifest is None:
        return
    tokenizer = file.manifest["tokenizer"]
    if vocab_size is not None and tokenizer["vocab_size"] > vocab_size:
        raise InputError(
            f"records {file.path}: made with a vocabulary of "
            f"{tokenizer['vocab_size']} pieces, more than vocab_size="
            f"{vocab_size}; use records and a model of one vocabulary"
        )
    if fingerprint is not None and tokenizer["fingerprint"] != fingerprint:
        raise InputError(
            f"records {file.path}: made with another tokenizer (fingerprint "
            f"{tokenizer['fingerprint'][:12]}, not {fingerprint[:12]}); use "
            "that one, or make the data again"
        )


def _largest_id(file: RecordFile, sizes: Mapping[str, int]) -> int:
    """Returns the largest token id of the first records, all of one size."""
    tokens, predictions = sizes["tokens"], sizes["predictions"]
    ids = {
        "input_ids": tf.io.FixedLenFeature([tokens], tf.int64),
        "masked_lm_ids": tf.io.FixedLenFeature([predictions], tf.int64),
    }
    try:
        records = next(iter(open_records(file.path).batch(_LOOKED_AT)))
    except tf.errors.OpError as error:
        raise damaged(file.path, error) from None
    try:
        parsed = tf.io.parse_example(records, ids)
    except tf.errors.InvalidArgumentError:
        raise InputError(
            f"records {file.path}: not all have {tokens} tokens and "
            f"{predictions} predictions, as the first one has; make them again"
        ) from None
    return max(int(tf.reduce_max(values)) for values in parsed.values())


def _first_record(file: RecordFile) -> dict[str, Any] | None:
    """Returns the features of the first record; None if there is none."""
    try:
        record = next(iter(open_records(file.path).take(1)), None)
    except tf.errors.OpError as error:
        raise damaged(file.path, error) from None
    if record is None:
        return None
    try:
        features = parse_example(record.numpy())
    except ValueError:
        features = {}
    missing = sorted(READ_FEATURES.difference(features))
    if missing:
        raise InputError(
            f"records {file.path}: no pretraining records, for they lack "
            f"{', '.join(missing)}; name files made by create-data"
        )
    return features


def verify_records(
    patterns: str | os.PathLike[str] | Sequence[str], split: str = "train"
) -> int:
    """Reads all records once, to find damage: the sums in the files are right.

    TensorFlow does not say which file a `DataLossError` of a running dataset is
    about; this does.

    Returns:
      The number of records.

    Raises:
      InputError: names the first file that cannot be read to its end.
    """
    files = find_record_files(patterns, split)
    return sum(count_records(file.path) for file in files)
