"""The order in which records are read, and batches of examples."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.data.dynamic_examples import ExampleSettings, make_examples
from albert_tf.data.mixture import Corpus
from albert_tf.data.record_checks import (
    RecordLimits,
    TextLimits,
    parse_checked,
    read_records,
)
from albert_tf.data.record_files import RecordFile, group_by_corpus
from albert_tf.data.tfrecords import FEATURE_OF_INPUT
from albert_tf.errors import InputError
from albert_tf.training.input import shuffle

# Number of records that training shuffles at a time: 17 MB at 128 tokens, 52 MB
# at 512. Files as a whole are already shuffled by `create_pretraining_data`.
SHUFFLE_BUFFER = 16384

# Number of text records that are masked at a time. A resumed run masks the
# group that it starts in as a whole, for the same random draws.
GROUP_RECORDS = 1024

# Files read at the same time, one record of each in turn.
_INTERLEAVED_FILES = 16


def records_in_order(
    corpora: Sequence[Sequence[RecordFile]],
) -> tf.data.Dataset:
    """Reads the serialized records of all files once.

    Corpora are interleaved, because an evaluation may not read all records.
    """
    datasets = [
        tf.data.Dataset.from_tensor_slices(
            [file.path for file in files]
        ).flat_map(read_records)
        for files in corpora
    ]
    if len(datasets) == 1:
        return datasets[0]
    turns = tf.data.Dataset.range(len(datasets)).repeat()
    return tf.data.Dataset.choose_from_datasets(
        datasets, turns, stop_on_empty_dataset=False
    )


def shuffled_groups(
    files: Sequence[RecordFile], key: tf.Tensor, first_record: int
) -> tf.data.Dataset:
    """Reads shuffled records of endless epochs, in groups.

    Args:
      files: the files.
      key: int64 `[2]`; with the number of the epoch, it determines the order.
      first_record: number of records to skip.

    Returns:
      Dataset of dicts: string `records` `[group]`; int64 `first`, the number
      of them to skip, which is 0 except in the first group; int64 `seed` `[2]`,
      unique to each group of all epochs.
    """
    return _shuffled_buffers(files, key, first_record).flat_map(_groups)


def mixed_groups(
    corpora: Sequence[Sequence[RecordFile]],
    quotas: Sequence[int],
    key: tf.Tensor,
    first_record: int,
) -> tf.data.Dataset:
    """Mixes the records of several corpora by their quotas.

    Each corpus is read by `shuffled_groups`, in epochs of its own, and each
    group of the mixture has its quota of them. So the position in each corpus
    follows from that in the mixture.

    Args:
      corpora: the files of each corpus; a single one is not mixed.
      quotas: records of each corpus in a group, `GROUP_RECORDS` in total.
      key: see `shuffled_groups`.
      first_record: number of records of the mixture to skip.

    Returns:
      See `shuffled_groups`; groups have `GROUP_RECORDS` records.
    """
    if len(corpora) == 1:
        return shuffled_groups(corpora[0], key, first_record)
    first_group, rest = divmod(first_record, GROUP_RECORDS)
    datasets = tuple(
        shuffled_groups(
            files,
            tf.random.experimental.stateless_fold_in(
                key, tf.constant(number, tf.int64)
            ),
            first_group * quota,
        )
        .map(lambda group: group["records"][group["first"] :])
        .rebatch(quota, drop_remainder=True)
        for number, (files, quota) in enumerate(
            zip(corpora, quotas, strict=True)
        )
    )
    # The keys of the corpora are numbered from 0.
    mixture_key = tf.random.experimental.stateless_fold_in(
        key, tf.constant(-1, tf.int64)
    )

    def mix(
        number: tf.Tensor, records: tuple[tf.Tensor, ...]
    ) -> dict[str, tf.Tensor]:
        first = tf.where(number == first_group, rest, 0)
        return {
            "records": shuffle(tf.concat(records, 0), mixture_key, number),
            "first": tf.cast(first, tf.int64),
            "seed": tf.random.experimental.stateless_fold_in(
                mixture_key, number
            ),
        }

    return tf.data.Dataset.zip(datasets).enumerate(first_group).map(mix)


def compute_quotas(corpora: Sequence[Corpus], size: int) -> list[int]:
    """Divides a number of records by weight (largest remainder method).

    Args:
      corpora: the corpora; if empty, there is a single quota.
      size: the number of records to divide.

    Raises:
      InputError: If a weight is too small for one record.
    """
    shares = [corpus.weight * size for corpus in corpora] or [size]
    quotas = [math.floor(share) for share in shares]
    by_remainder = sorted(
        range(len(shares)), key=lambda i: (quotas[i] - shares[i], i)
    )
    for i in by_remainder[: size - sum(quotas)]:
        quotas[i] += 1
    if 0 in quotas:
        corpus = corpora[quotas.index(0)]
        raise InputError(
            f"corpus {corpus.name}: a share of {corpus.weight:.2g} gives it "
            f"none of {size} records; raise its weight to 1/{size} of the "
            "total, or leave it out"
        )
    return quotas


def describe_mixture(
    corpora: Sequence[Corpus], files: Iterable[RecordFile], examples: int
) -> str:
    """Returns a line with the share and epochs of each corpus.

    Args:
      corpora: the corpora.
      files: their files.
      examples: number of records that are read from all corpora.
    """
    descriptions = []
    quotas = compute_quotas(corpora, GROUP_RECORDS)
    for (name, group), quota in zip(
        group_by_corpus(files).items(), quotas, strict=True
    ):
        share = quota / GROUP_RECORDS
        records = sum(file.num_records for file in group)
        descriptions.append(
            f"{name} {share:.1%}, {records:,} records, "
            f"{examples * share / records:.2f} epochs"
        )
    return "; ".join(descriptions)


def _groups(buffer: Mapping[str, tf.Tensor]) -> tf.data.Dataset:
    """Splits a buffer into groups, and skips those before `first`."""
    records, first = buffer["records"], buffer["first"]
    size = tf.shape(records, tf.int64)[0]

    def group(begin: tf.Tensor) -> dict[str, tf.Tensor]:
        return {
            "records": records[begin : begin + GROUP_RECORDS],
            "first": tf.maximum(first - begin, 0),
            "seed": tf.random.experimental.stateless_fold_in(
                buffer["seed"], begin
            ),
        }

    first_group = first // GROUP_RECORDS * GROUP_RECORDS
    return tf.data.Dataset.range(first_group, size, GROUP_RECORDS).map(group)


def _shuffled_buffers(
    files: Sequence[RecordFile], key: tf.Tensor, first_record: int
) -> tf.data.Dataset:
    """Reads shuffled records in buffers; otherwise like `shuffled_groups`."""
    paths = np.array([file.path for file in files])
    counts = np.array([file.num_records for file in files])
    first_epoch, offset = divmod(first_record, int(counts.sum()))
    first_buffer, rest = divmod(offset, SHUFFLE_BUFFER)

    def seed_of(epoch: tf.Tensor) -> tf.Tensor:
        return tf.random.experimental.stateless_fold_in(key, epoch)

    def buffers(
        slices: Mapping[str, tf.Tensor | np.ndarray],
        epoch_seed: tf.Tensor,
        first_buffer: int = 0,
        rest: int = 0,
    ) -> tf.data.Dataset:
        def shuffled(
            number: tf.Tensor, buffer: tf.Tensor
        ) -> dict[str, tf.Tensor]:
            first = tf.where(number == first_buffer, rest, 0)
            return {
                "records": shuffle(buffer, epoch_seed, number),
                "first": tf.cast(first, tf.int64),
                "seed": tf.random.experimental.stateless_fold_in(
                    epoch_seed, number
                ),
            }

        return (
            tf.data.Dataset.from_tensor_slices(slices)
            .interleave(
                _read_slice,
                cycle_length=_INTERLEAVED_FILES,
                num_parallel_calls=_INTERLEAVED_FILES,
                deterministic=True,
            )
            .batch(SHUFFLE_BUFFER)
            .enumerate(first_buffer)
            .map(shuffled)
            .prefetch(1)
        )

    def whole_epoch(epoch: tf.Tensor) -> tf.data.Dataset:
        epoch_seed = seed_of(epoch)
        order = shuffle(tf.range(len(paths)), epoch_seed, -1)
        slices = {
            "path": tf.gather(paths, order),
            "skip": tf.zeros([len(paths)], tf.int64),
            "records": tf.gather(counts, order),
        }
        return buffers(slices, epoch_seed)

    # The dtype matters: folding in an int32 gives another seed.
    epoch_seed = seed_of(tf.constant(first_epoch, tf.int64))
    order = shuffle(tf.range(len(paths)), epoch_seed, -1).numpy()
    numbers, skips = remaining_slices(
        counts[order].tolist(), first_buffer * SHUFFLE_BUFFER
    )
    # Any path will do for an empty slice, whose file is not opened.
    slices = {
        "path": paths[order][numbers],
        "skip": skips,
        "records": np.where(numbers < 0, 0, counts[order][numbers] - skips),
    }
    rest_of_epoch = buffers(slices, epoch_seed, first_buffer, rest)
    later = tf.data.Dataset.counter(first_epoch + 1).flat_map(whole_epoch)
    return rest_of_epoch.concatenate(later)


def _read_slice(file: Mapping[str, tf.Tensor]) -> tf.data.Dataset:
    """Reads the records of a file after those to skip.

    It is a TensorFlow error if their number is not the one that was counted,
    which determines where a run is resumed.
    """
    records = read_records(file["path"]).skip(file["skip"])
    records = records.apply(
        tf.data.experimental.assert_cardinality(file["records"])
    )
    # `take(0)` does not open the file.
    return records.take(-tf.cast(file["records"] > 0, tf.int64))


def remaining_slices(
    counts: Sequence[int], skipped: int, cycle_length: int = _INTERLEAVED_FILES
) -> tuple[np.ndarray, np.ndarray]:
    """Finds what an interleaved dataset has not read yet.

    `Dataset.interleave` reads one record from each slot of its cycle in turn.
    When the file of a slot ends, the slot is passed over once, and opens the
    next file in its next turn.

    Args:
      counts: records of the files, in the order in which they are opened.
      skipped: number of records that were read, less than the total.
      cycle_length: number of files that are open at the same time.

    Returns:
      The index of the file, -1 for none, and the number of records to skip in
      it, both int64 `[slices]`. Interleaved in this order, the slices give the
      records that follow the skipped ones.
    """
    file = np.full(cycle_length, -1)  # open file of each slot
    left = np.zeros(cycle_length, np.int64)  # its remaining records
    slot = next_file = 0
    while skipped:
        is_open = file >= 0
        # Do whole turns of all slots at once, as long as no file ends.
        if is_open.all() or next_file == len(counts):
            num_open = int(is_open.sum())
            turns = min(int(left[is_open].min()), skipped // num_open)
            left[is_open] -= turns
            skipped -= turns * num_open
            if turns:
                continue
        if file[slot] < 0 and next_file < len(counts):
            file[slot], left[slot] = next_file, counts[next_file]
            next_file += 1
        if left[slot]:
            left[slot] -= 1
            skipped -= 1
        else:
            file[slot] = -1
        slot = (slot + 1) % cycle_length
    numbers, skips = [], []
    for number, rest in zip(
        np.roll(file, -slot), np.roll(left, -slot), strict=True
    ):
        if number < 0 and next_file < len(counts):
            number, rest = next_file, counts[next_file]
            next_file += 1
        # A file that has ended need not be opened again.
        numbers.append(number if rest else -1)
        skips.append(counts[number] - rest if rest else 0)
    numbers += range(next_file, len(counts))
    skips += [0] * (len(counts) - next_file)
    return np.array(numbers, np.int64), np.array(skips, np.int64)


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
        """Checks that each reading group has rows, and records of each corpus.

        Raises:
          InputError: if a group has no rows, or no records of some corpus.
        """
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

        Args:
          records_fn: maps a result of `mixed_groups` to a dataset of
            records or examples in batches of any size.
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
