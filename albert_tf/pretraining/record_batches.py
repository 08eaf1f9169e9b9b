"""Batches of pretraining records: masked already, or masked here."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from albert_tf.errors import InputError
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
    CorpusFiles,
    mixed_groups,
    records_in_order,
)
from albert_tf.pretraining.record_writer import FEATURE_OF_INPUT
from albert_tf.training.input import WHOLE, HostShare


@dataclasses.dataclass(frozen=True)
class Reading:
    """Which records are read, and in which order.

    Attributes:
      corpora: the files of each corpus; those of one, if none are mixed.
      quotas: records of each corpus in a group of a mixture.
      global_batch_size: rows of a batch.
      seed: order of the records in training.
      first_example: number of records to skip, of whole batches.
      training: endless and shuffled, or one pass in order.
      share: the host whose rows are read. In training, group g of G reads the
        files g, g + G, ... of each corpus.
    """

    corpora: Sequence[Sequence[RecordFile]]
    quotas: Sequence[int]
    global_batch_size: int
    seed: int
    first_example: int
    training: bool
    share: HostShare = WHOLE

    def check_groups(self) -> None:
        """Checks that each reading group has rows, and records of each corpus.

        Raises:
          InputError: it has not.
        """
        groups = self.share.groups
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

    @property
    def rows_of_group(self) -> int:
        """Rows of a batch that come from one of the groups."""
        return self.global_batch_size // self.share.groups

    def training_groups(self) -> list[tf.data.Dataset]:
        """Returns, for each reading group of the host, `mixed_groups`."""
        groups = self.share.groups
        here = groups // self.share.hosts
        first = self.share.host * here
        return [
            mixed_groups(
                [
                    CorpusFiles(files[number::groups], quota)
                    for files, quota in zip(
                        self.corpora, self.quotas, strict=True
                    )
                ],
                tf.constant([self.seed, number], tf.int64),
                self.first_example // groups,
            )
            for number in range(first, first + here)
        ]


def _joined(parts: Sequence[tf.data.Dataset]) -> tf.data.Dataset:
    """Returns batches that consist of those of all parts, in their order."""
    if len(parts) == 1:
        return parts[0]
    return tf.data.Dataset.zip(tuple(parts)).map(
        lambda *batches: tf.nest.map_structure(
            lambda *tensors: tf.concat(tensors, 0), *batches
        )
    )


# Without AutoGraph, which would delay each start and resumption: no function of
# the pipeline branches on tensors.
@tf.autograph.experimental.do_not_convert
def masked_batches(reading: Reading, limits: RecordLimits) -> tf.data.Dataset:
    """Returns batches of Google's records; see `pretraining_dataset`."""
    if reading.training:
        batches = _joined(
            [
                groups.map(
                    lambda group: group["records"][group["first"] :]
                ).rebatch(reading.rows_of_group, drop_remainder=True)
                for groups in reading.training_groups()
            ]
        )
    else:
        records = records_in_order(reading.corpora).skip(reading.first_example)
        batches = records.batch(reading.global_batch_size)
    return batches.map(
        lambda batch: _rename(parse_checked(batch, limits)),
        num_parallel_calls=tf.data.AUTOTUNE,
    )


@tf.autograph.experimental.do_not_convert
def text_batches(
    reading: Reading, limits: TextLimits, settings: ExampleSettings
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

    def batches_of(groups: tf.data.Dataset, size: int) -> tf.data.Dataset:
        examples = groups.map(draw, num_parallel_calls=tf.data.AUTOTUNE)
        return examples.rebatch(size, drop_remainder=reading.training)

    if reading.training:
        # They begin with the first example.
        return _joined(
            [
                batches_of(groups, reading.rows_of_group)
                for groups in reading.training_groups()
            ]
        )
    records = records_in_order(reading.corpora)
    groups = records.batch(GROUP_RECORDS).enumerate().map(_group)
    batches = batches_of(groups, reading.global_batch_size)
    return batches.skip(reading.first_example // reading.global_batch_size)


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
