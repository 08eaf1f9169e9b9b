"""Batches of pretraining examples."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from albert_tf.data.dynamic_examples import ExampleSettings, make_examples
from albert_tf.data.record_checks import RecordLimits, TextLimits, parse_checked
from albert_tf.data.record_files import RecordFile
from albert_tf.data.record_order import (
    GROUP_RECORDS,
    mixed_groups,
    records_in_order,
)
from albert_tf.data.tfrecords import FEATURE_OF_INPUT
from albert_tf.errors import InputError


@dataclasses.dataclass(frozen=True)
class ReadConfig:
    """Which records are read, and in which order.

    Attributes:
      corpora: the files of each corpus; without a mixture there is one.
      quotas: records of each corpus in `GROUP_RECORDS` of a mixture.
      global_batch_size: rows of a batch, over all hosts.
      seed: seed of the order of the records in training.
      first_example: number of records to skip.
      training: repeated and shuffled; otherwise one pass in order.
      reading_groups: equal parts of each training batch that are read from
        separate files: group g of G reads files g, g + G, ... of each corpus.
      input_context: the host to read for, which gets the rows of its reading
        groups; None: whole batches.
    """

    corpora: Sequence[Sequence[RecordFile]]
    quotas: Sequence[int]
    global_batch_size: int
    seed: int
    first_example: int
    training: bool
    reading_groups: int = 1
    input_context: tf.distribute.InputContext | None = None

    def check_reading_groups(self) -> None:
        """Raises an `InputError` if a group lacks rows or a corpus."""
        groups = self.reading_groups
        if self.global_batch_size % groups:
            raise InputError(
                f"reading_groups={groups} must divide the batch of "
                f"{self.global_batch_size} examples"
            )
        for files in self.corpora:
            for group in range(groups):
                if any(file.num_records for file in files[group::groups]):
                    continue
                raise InputError(
                    f"reading_groups={groups} is too many for the "
                    f"{len(files)} files of {os.path.dirname(files[0].path)}: "
                    "one group would have no record; lower it, or make the "
                    "data with more shards"
                )

    def training_batches(
        self, records_fn: Callable[[tf.data.Dataset], tf.data.Dataset]
    ) -> tf.data.Dataset:
        """Returns the batches of all reading groups of the host.

        `records_fn` maps a result of `mixed_groups` to a dataset of records or
        examples in batches of any size.
        """
        groups = self.reading_groups
        context = self.input_context or tf.distribute.InputContext()
        here = groups // context.num_input_pipelines
        first = context.input_pipeline_id * here
        datasets = tuple(
            records_fn(
                mixed_groups(
                    [files[number::groups] for files in self.corpora],
                    self.quotas,
                    tf.constant([self.seed, number], tf.int64),
                    self.first_example // groups,
                )
            ).rebatch(self.global_batch_size // groups, drop_remainder=True)
            for number in range(first, first + here)
        )
        if len(datasets) == 1:
            return datasets[0]
        return tf.data.Dataset.zip(datasets).map(
            lambda *batches: tf.nest.map_structure(
                lambda *tensors: tf.concat(tensors, 0), *batches
            )
        )


# AutoGraph would delay each start and resumption, and no function of the
# pipeline branches on tensors.
@tf.autograph.experimental.do_not_convert
def masked_batches(config: ReadConfig, limits: RecordLimits) -> tf.data.Dataset:
    """Returns batches of Google's records; see `pretraining_dataset`."""
    if config.training:
        batches = config.training_batches(
            lambda groups: groups.map(
                lambda group: group["records"][group["first"] :]
            )
        )
    else:
        records = records_in_order(config.corpora).skip(config.first_example)
        batches = records.batch(config.global_batch_size)
    return batches.map(
        lambda batch: _rename(parse_checked(batch, limits)),
        num_parallel_calls=tf.data.AUTOTUNE,
    )


@tf.autograph.experimental.do_not_convert
def text_batches(
    config: ReadConfig, limits: TextLimits, settings: ExampleSettings
) -> tf.data.Dataset:
    """Returns batches of text records, masked anew in every epoch.

    In training, the random draws depend on the seed, the epoch and the position
    of a record in it. Otherwise they are the same in every pass.
    """

    def make(group: Mapping[str, tf.Tensor]) -> dict[str, Any]:
        chunks = parse_checked(group["records"], limits)
        examples = make_examples(chunks, settings, group["seed"])
        return {
            name: values[group["first"] :] for name, values in examples.items()
        }

    def examples(groups: tf.data.Dataset) -> tf.data.Dataset:
        return groups.map(make, num_parallel_calls=tf.data.AUTOTUNE)

    if config.training:
        return config.training_batches(examples)

    def group(number: tf.Tensor, records: tf.Tensor) -> dict[str, tf.Tensor]:
        return {
            "records": records,
            "first": tf.constant(0, tf.int64),
            "seed": tf.stack([number, 0]),
        }

    records = records_in_order(config.corpora).batch(GROUP_RECORDS)
    batches = examples(records.enumerate().map(group)).rebatch(
        config.global_batch_size
    )
    return batches.skip(config.first_example // config.global_batch_size)


def _rename(parsed: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Renames Google's features to the models' inputs; int64 to int32.

    A record without a second segment has no order, so its label has weight 0.
    """
    values = {
        name: tf.cast(value, tf.int32) if value.dtype == tf.int64 else value
        for name, value in parsed.items()
    }
    has_order = tf.reduce_any(values["segment_ids"] > 0, axis=1)
    return {
        **{ours: values[theirs] for ours, theirs in FEATURE_OF_INPUT.items()},
        "sentence_order_weights": tf.cast(has_order, tf.float32),
    }
