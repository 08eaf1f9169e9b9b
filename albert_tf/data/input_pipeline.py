"""Records to batches: a training batch is a function of (seed, step) alone."""

from __future__ import annotations

import os
from collections.abc import Sequence

import tensorflow as tf

from albert_tf.data.check_records import check_records
from albert_tf.data.record_files import (
    RecordFile,
    count_records,
    find_record_files,
    open_records,
)
from albert_tf.data.shuffling import shuffle
from albert_tf.errors import InputError

# Records are shuffled in windows of this many, 17 MB at 128 tokens and 52 MB at
# 512; `create_pretraining_data` has shuffled each file as a whole before.
SHUFFLE_WINDOW = 16384

# Files read at the same time, one record of each in turn.
_INTERLEAVED_FILES = 16


def pretraining_dataset(
    patterns: str | os.PathLike[str] | Sequence[str],
    *,
    global_batch_size: int,
    seed: int = 0,
    start_step: int = 0,
    training: bool = True,
    max_seq_length: int | None = None,
    max_predictions_per_seq: int | None = None,
    split: str = "train",
) -> tf.data.Dataset:
    """Reads batches of pretraining records.

    Training is endless. Each epoch has every record once, in an order made from
    (seed, epoch): files are shuffled and interleaved, and windows of
    `SHUFFLE_WINDOW` records are shuffled. Epochs follow each other without a
    gap: the batch at the border has records of both, so none is left out. Batch
    k is thus the same whether a run began at step 0 or resumed at k. The global
    random seed has no part in it.

    Evaluation is one pass in the order of files and records; the last batch
    holds what is left.

    Args:
      patterns: files or folders of `create_pretraining_data`; see
        `find_record_files`. Google's own records are read too.
      global_batch_size: rows of a batch, over all replicas.
      seed: order of the records in training.
      start_step: number of batches to skip. They are not parsed, and whole
        epochs are not even read.
      training: endless and shuffled, or one pass in order.
      max_seq_length: required tokens of a record; None: as the records have.
      max_predictions_per_seq: the same for predictions.
      split: "train" or "heldout", where `patterns` names a folder.

    Returns:
      Dataset of dicts: int32 `input_word_ids`, `input_mask`, `input_type_ids`
      `[batch, seq]`, `masked_lm_positions`, `masked_lm_ids` `[batch,
      predictions]`, `sentence_order_labels` `[batch]` (1 = swapped), float32
      `masked_lm_weights` `[batch, predictions]`; all shapes are static in
      training.

    Raises:
      InputError: see `find_record_files` and `check_records`.
    """
    for name, value, least in (
        ("global_batch_size", global_batch_size, 1),
        ("start_step", start_step, 0),
    ):
        if value < least:
            raise InputError(f"{name}={value} must be at least {least}")
    max_seq_length, max_predictions_per_seq = check_records(
        patterns,
        max_seq_length=max_seq_length,
        max_predictions_per_seq=max_predictions_per_seq,
        split=split,
    )
    files = find_record_files(patterns, split)
    first_record = start_step * global_batch_size
    if training:
        windows = _endless(files, seed, first_record)
        batches = windows.rebatch(global_batch_size, drop_remainder=True)
    else:
        records = _in_order(files).skip(first_record)
        batches = records.batch(global_batch_size)
    spec = _feature_spec(max_seq_length, max_predictions_per_seq)

    def parse(batch: tf.Tensor) -> dict[str, tf.Tensor]:
        return _to_batch(tf.io.parse_example(batch, spec))

    options = tf.data.Options()
    options.deterministic = True
    # Workers share out the rows of batches, not the files.
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.OFF
    )
    return (
        batches.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
        .prefetch(tf.data.AUTOTUNE)
        .with_options(options)
    )


def _in_order(files: Sequence[RecordFile]) -> tf.data.Dataset:
    paths = tf.data.Dataset.from_tensor_slices([file.path for file in files])
    return paths.flat_map(_read)


def _endless(
    files: Sequence[RecordFile], seed: int, first_record: int
) -> tf.data.Dataset:
    """Returns the records of all epochs from `first_record` on, in windows."""
    paths = tf.constant([file.path for file in files])
    num_records = sum(
        count_records(file.path)
        if file.num_records is None
        else file.num_records
        for file in files
    )
    first_epoch, offset = divmod(first_record, num_records)
    first_window, rest = divmod(offset, SHUFFLE_WINDOW)
    seed = tf.constant([seed, 0], tf.int64)

    def epoch_windows(epoch: tf.Tensor) -> tf.data.Dataset:
        epoch_seed = tf.random.experimental.stateless_fold_in(seed, epoch)

        resumes = tf.cast(epoch == first_epoch, tf.int64)
        skipped = resumes * first_window

        def shuffled(number: tf.Tensor, window: tf.Tensor) -> tf.Tensor:
            first = tf.where(number == first_window, resumes * rest, 0)
            return shuffle(window, epoch_seed, number)[first:]

        return (
            tf.data.Dataset.from_tensor_slices(shuffle(paths, epoch_seed, -1))
            .interleave(_read, cycle_length=_INTERLEAVED_FILES)
            .skip(skipped * SHUFFLE_WINDOW)
            .batch(SHUFFLE_WINDOW)
            .enumerate(skipped)
            .map(shuffled)
            .prefetch(1)
        )

    epochs = tf.data.Dataset.counter(first_epoch)
    return epochs.flat_map(epoch_windows)


def _read(path: tf.Tensor) -> tf.data.Dataset:
    return open_records(path)


def _feature_spec(
    max_seq_length: int, max_predictions_per_seq: int
) -> dict[str, tf.io.FixedLenFeature]:
    tokens = tf.io.FixedLenFeature([max_seq_length], tf.int64)
    predictions = tf.io.FixedLenFeature([max_predictions_per_seq], tf.int64)
    return {
        "input_ids": tokens,
        "input_mask": tokens,
        "segment_ids": tokens,
        "masked_lm_positions": predictions,
        "masked_lm_ids": predictions,
        "masked_lm_weights": tf.io.FixedLenFeature(
            [max_predictions_per_seq], tf.float32
        ),
        "next_sentence_labels": tf.io.FixedLenFeature([], tf.int64),
    }


def _to_batch(parsed: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Renames Google's features to the models' inputs; int64 to int32."""
    names = {
        "input_word_ids": "input_ids",
        "input_mask": "input_mask",
        "input_type_ids": "segment_ids",
        "masked_lm_positions": "masked_lm_positions",
        "masked_lm_ids": "masked_lm_ids",
        "sentence_order_labels": "next_sentence_labels",
    }
    batch = {
        ours: tf.cast(parsed[theirs], tf.int32)
        for ours, theirs in names.items()
    }
    return batch | {"masked_lm_weights": parsed["masked_lm_weights"]}
