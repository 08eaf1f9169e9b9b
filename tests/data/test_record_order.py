"""The position in the files from which a run is resumed."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.record_files import RecordFile
from albert_tf.data.record_order import remaining_slices, shuffled_groups
from albert_tf.training.input import shuffle

KEY = tf.constant([3, 0], tf.int64)


def interleave(counts, numbers, skips, cycle_length, **parallel):
    """Returns (file, record) in the order of a real interleaved dataset."""
    sizes = np.where(numbers < 0, 0, np.array(counts)[numbers])
    slices = np.stack([numbers * 1000 + skips, numbers * 1000 + sizes], axis=1)
    slices[numbers < 0] = 0
    records = tf.data.Dataset.from_tensor_slices(slices).interleave(
        lambda part: tf.data.Dataset.range(part[0], part[1]),
        cycle_length=cycle_length,
        **parallel,
    )
    found = next(records.batch(1 << 20).as_numpy_iterator(), np.array([]))
    return [divmod(x, 1000) for x in found.tolist()]


@pytest.mark.parametrize("trial", range(8))
def test_remaining_slices_of_interleaved_files(trial):
    """Files of all sizes, also empty ones; any number of skipped records."""
    random = np.random.default_rng(trial)
    counts = random.integers(0, [7, 2, 300, 40][trial % 4], 1 + 3 * trial)
    counts[0] += 1
    cycle_length = [3, 16, 4, 1][trial % 4]
    numbers, skips = remaining_slices(counts, 0, cycle_length)
    whole = interleave(counts, numbers, skips, cycle_length)
    # Reading in parallel has no influence.
    parallel = interleave(
        counts,
        numbers,
        skips,
        cycle_length,
        num_parallel_calls=cycle_length,
        deterministic=True,
    )
    assert whole == parallel
    assert len(whole) == counts.sum()
    for skipped in random.integers(0, len(whole) + 1, 6).tolist():
        numbers, skips = remaining_slices(counts, skipped, cycle_length)
        rest = interleave(counts, numbers, skips, cycle_length)
        assert rest == whole[skipped:]
        # No file that has been read to its end.
        used = {file for file in numbers.tolist() if file >= 0 and counts[file]}
        assert used == {file for file, _ in rest}


def test_skipping_billions_of_records_is_fast():
    counts = np.full(3000, 10**6)
    numbers, skips = remaining_slices(counts, 2_999_000_000)
    assert numbers[numbers >= 0].tolist() == [*range(2992, 3000)]
    assert (10**6 - skips[numbers >= 0]).sum() == 10**6


@pytest.fixture
def files(tmp_path, write_records):
    """Forty files of twenty records, which are numbered."""
    made = []
    for number in range(40):
        path = tmp_path / f"{number}.tfrecord"
        write_records(path, *(b"%d %d" % (number, i) for i in range(20)))
        made.append(RecordFile(str(path), counted_records=20))
    return made


def records_from(files, first, monkeypatch, count=None):
    monkeypatch.setattr("albert_tf.data.record_order.SHUFFLE_BUFFER", 100)
    groups = shuffled_groups(files, KEY, first)
    records = groups.flat_map(
        lambda group: tf.data.Dataset.from_tensor_slices(
            group["records"][group["first"] :]
        )
    )
    count = count or 1600 - first
    return next(records.batch(count).as_numpy_iterator()).tolist()


def test_skipped_files_are_not_opened(files, tmp_path, monkeypatch):
    whole = records_from(files, 0, monkeypatch)
    assert len(set(whole[:800])) == len(set(whole[800:])) == 800
    seed = tf.random.experimental.stateless_fold_in(
        KEY, tf.constant(0, tf.int64)
    )
    order = shuffle(tf.range(40), seed, -1).numpy()
    # Sixteen are open at a time, so these end after 320 and 640 records.
    for ended, starts in ((order[:16], (613,)), (order[16:32], (755,))):
        for number in ended:
            (tmp_path / f"{number}.tfrecord").unlink()
        for first in starts:
            rest = records_from(files, first, monkeypatch, 800 - first)
            assert rest == whole[first:800]
    with pytest.raises(tf.errors.NotFoundError):
        records_from(files, 100, monkeypatch)


@pytest.mark.long
def test_a_resumed_run_skips_whole_epochs(files, monkeypatch):
    whole = records_from(files, 0, monkeypatch)
    for first in (1, 799, 800, 1234):
        assert records_from(files, first, monkeypatch) == whole[first:]
