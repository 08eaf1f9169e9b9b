"""The order in which records are read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.data.mixture import Corpus
from albert_tf.data.record_checks import read_records
from albert_tf.data.record_files import RecordFile, group_by_corpus
from albert_tf.errors import InputError
from albert_tf.tensor_ops import fold_in
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

    The order follows from `key`, int64 `[2]`, and the number of the epoch. The
    first `first_record` records are skipped.

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
    follows from that in the mixture. A single corpus is not mixed.

    Args:
      corpora: the files of each corpus.
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
            fold_in(key, tf.constant(number, tf.int64)),
            first_group * quota,
        )
        .map(lambda group: group["records"][group["first"] :])
        .rebatch(quota, drop_remainder=True)
        for number, (files, quota) in enumerate(
            zip(corpora, quotas, strict=True)
        )
    )
    # The keys of the corpora are numbered from 0.
    mixture_key = fold_in(key, tf.constant(-1, tf.int64))

    def mix(
        number: tf.Tensor, records: tuple[tf.Tensor, ...]
    ) -> dict[str, tf.Tensor]:
        first = tf.where(number == first_group, rest, 0)
        return {
            "records": shuffle(tf.concat(records, 0), mixture_key, number),
            "first": tf.cast(first, tf.int64),
            "seed": fold_in(mixture_key, number),
        }

    return tf.data.Dataset.zip(datasets).enumerate(first_group).map(mix)


def compute_quotas(corpora: Sequence[Corpus], size: int) -> list[int]:
    """Divides `size` records by weight (largest remainder method).

    Without corpora there is a single quota.

    Raises:
      InputError: if a weight is too small for one record.
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

    `examples` is the number of records that are read from all corpora.
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
            "seed": fold_in(buffer["seed"], begin),
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
                "seed": fold_in(epoch_seed, number),
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
        epoch_seed = fold_in(key, epoch)
        order = shuffle(tf.range(len(paths)), epoch_seed, -1)
        slices = {
            "path": tf.gather(paths, order),
            "skip": tf.zeros([len(paths)], tf.int64),
            "records": tf.gather(counts, order),
        }
        return buffers(slices, epoch_seed)

    # The dtype matters: folding in an int32 gives another seed.
    epoch_seed = fold_in(key, tf.constant(first_epoch, tf.int64))
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
