"""Records with values that are out of bounds."""

import numpy as np
import pytest

from albert_tf.data.record_checks import RecordLimits
from albert_tf.data.records import open_records
from albert_tf.errors import InputError

GOOD = {
    "input_ids": np.arange(64),
    "input_mask": np.ones(64),
    "segment_ids": np.arange(64) // 32,
    "token_boundary": np.ones(64),
    "masked_lm_positions": np.arange(1, 11),
    "masked_lm_ids": np.arange(10, 20),
    "masked_lm_weights": np.ones(10),
    "next_sentence_labels": [0],
}


def spoil(name, value):
    """Returns a change of the first value of a feature."""
    return {name: [value, *GOOD[name][1:]]}


TWO_LABELS = {"next_sentence_labels": [0, 1]}
PADDED_PREDICTION = {
    "masked_lm_positions": [63, *range(2, 11)],
    "input_mask": [1] * 63 + [0],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (spoil("input_ids", -1), "input_ids must be from 0 to 199"),
        (spoil("input_ids", 200), "input_ids must be from 0 to 199"),
        (spoil("input_ids", 2**32 + 5), "input_ids must be from 0 to 199"),
        (spoil("masked_lm_ids", -1), "masked_lm_ids must be from 0 to 199"),
        (spoil("masked_lm_ids", 200), "masked_lm_ids must be from 0 to 199"),
        (spoil("masked_lm_positions", -1), "positions must be from 0 to 63"),
        (spoil("masked_lm_positions", 64), "positions must be from 0 to 63"),
        (spoil("masked_lm_positions", 2**32), "positions must be from 0 to 63"),
        (spoil("segment_ids", -1), "segment_ids must be from 0 to 1"),
        (spoil("segment_ids", 2), "segment_ids must be from 0 to 1"),
        (spoil("input_mask", 7), "input_mask must be from 0 to 1"),
        (spoil("next_sentence_labels", 2), "labels must be from 0 to 1"),
        (
            spoil("masked_lm_weights", -1.0),
            "weights must be finite and at least 0",
        ),
        (
            spoil("masked_lm_weights", np.nan),
            "weights must be finite and at least 0",
        ),
        (
            spoil("masked_lm_weights", np.inf),
            "weights must be finite and at least 0",
        ),
        ({"input_mask": [0] * 64}, "input_mask is 0 everywhere"),
        (PADDED_PREDICTION, "a prediction where input_mask is 0"),
    ],
)
def test_values_out_of_bounds_are_errors(
    assert_refused, serialize, change, message
):
    limits = RecordLimits(64, 10, vocab_size=200, type_vocab_size=2)
    assert_refused(serialize(GOOD | change), limits, message)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (spoil("input_ids", 200), "input_ids must be from 0 to 199"),
        (TWO_LABELS, "does not have 64 tokens and 10 predictions like the"),
    ],
)
def test_errors_in_batches_name_the_record(
    spoiled, small_model, change, message, training
):
    """The record is not one of those that are inspected at first."""
    path = spoiled(change)
    records = open_records(path)
    records.check_model(small_model)
    batches = records.dataset(8, training=training, model=small_model)
    with (
        pytest.raises(InputError, match=message) as caught,
        records.explained_errors(small_model),
    ):
        list(batches.take(300))
    assert str(caught.value).startswith(f"records {path}: record 1003: ")


@pytest.fixture
def spoiled(tmp_path, serialize, write_records):
    """Returns `spoiled(change)`: a file whose record 1003 is changed."""

    def make(change):
        good, bad = serialize(GOOD), serialize(GOOD | change)
        records = [good] * 1002 + [bad] + [good] * 7
        return write_records(tmp_path / "a.tfrecord", *records)

    return make


def test_batches_may_have_no_predictions_but_not_all_records(
    spoiled, create, serialize, write_records, small_model, tmp_path
):
    """A short record has none if all its words exceed the quota."""
    no_weights = {"masked_lm_weights": np.zeros(10)}
    assert open_records(spoiled(no_weights)).verify(small_model) == 1010
    bad = [serialize(GOOD | no_weights)] * 1020
    path = write_records(tmp_path / "b.tfrecord", *bad, serialize(GOOD))
    records = open_records(path)
    assert records.verify(small_model) == 1021
    batches = records.dataset(8, training=False, model=small_model)
    assert not next(iter(batches))["masked_lm_weights"].numpy().any()
    write_records(path, *bad)
    with pytest.raises(InputError, match="weights are 0 in all records"):
        open_records(path)
    write_records(path, *bad[:7])
    open_records(path)
    folder, _ = create("no_masks", masked_lm_prob=0.0)
    batch = next(iter(open_records(folder).dataset(8)))
    assert not batch["masked_lm_weights"].numpy().any()
