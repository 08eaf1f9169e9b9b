"""Batches of pretraining records: masked already, or masked here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from albert_tf.pretraining.dynamic_examples import (
    ExampleSettings,
    make_examples,
)
from albert_tf.pretraining.record_checks import (
    RecordLimits,
    TextLimits,
    parse_checked,
)
from albert_tf.pretraining.record_files import RecordFile
from albert_tf.pretraining.record_order import (
    GROUP_RECORDS,
    records_in_order,
    shuffled_groups,
)
from albert_tf.pretraining.record_writer import FEATURE_OF_INPUT


def masked_batches(
    files: Sequence[RecordFile],
    global_batch_size: int,
    limits: RecordLimits,
    *,
    seed: int,
    first_example: int,
    training: bool,
) -> tf.data.Dataset:
    """Returns batches of Google's records; see `pretraining_dataset`."""
    if training:
        key = tf.constant([seed, 0], tf.int64)
        records = shuffled_groups(files, key, first_example).map(
            lambda group: group["records"][group["first"] :]
        )
        batches = records.rebatch(global_batch_size, drop_remainder=True)
    else:
        records = records_in_order(files).skip(first_example)
        batches = records.batch(global_batch_size)
    return batches.map(
        lambda batch: _rename(parse_checked(batch, limits)),
        num_parallel_calls=tf.data.AUTOTUNE,
    )


def text_batches(
    files: Sequence[RecordFile],
    global_batch_size: int,
    limits: TextLimits,
    settings: ExampleSettings,
    *,
    seed: int,
    first_example: int,
    training: bool,
) -> tf.data.Dataset:
    """Returns batches of records of text, masked anew in every epoch.

    In training all draws follow from the seed, the epoch and the place of a
    record in it. Without, they are the same in every pass.
    """

    def draw(group: Mapping[str, tf.Tensor]) -> dict[str, Any]:
        chunks = parse_checked(group["records"], limits)
        examples = make_examples(chunks, settings, group["seed"])
        return {
            name: values[group["first"] :] for name, values in examples.items()
        }

    if training:
        key = tf.constant([seed, 0], tf.int64)
        groups = shuffled_groups(files, key, first_example)
    else:
        groups = (
            records_in_order(files).batch(GROUP_RECORDS).enumerate().map(_group)
        )
    examples = groups.map(draw, num_parallel_calls=tf.data.AUTOTUNE)
    batches = examples.rebatch(global_batch_size, drop_remainder=training)
    # In training the groups begin with the first example.
    return (
        batches
        if training
        else batches.skip(first_example // global_batch_size)
    )


def _group(number: tf.Tensor, records: tf.Tensor) -> dict[str, tf.Tensor]:
    return {
        "records": records,
        "first": tf.constant(0, tf.int64),
        "seed": tf.stack([number, 0]),
    }


def _rename(parsed: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Renames Google's features to the models' inputs; int64 to int32."""
    values = {
        name: tf.cast(value, tf.int32) if value.dtype == tf.int64 else value
        for name, value in parsed.items()
    }
    return {ours: values[theirs] for ours, theirs in FEATURE_OF_INPUT.items()}
