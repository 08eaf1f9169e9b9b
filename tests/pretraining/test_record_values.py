"""Values of records that no model can be trained on."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.pretraining import record_files
from albert_tf.pretraining.record_writer import (
    serialize_examples,
)
from albert_tf.pretraining.records import open_records

FITTING = AlbertConfig(
    vocab_size=200,
    embedding_size=8,
    hidden_size=8,
    num_attention_heads=1,
    intermediate_size=8,
    max_position_embeddings=64,
)


def write_records(path, *records):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)
    return path


def spoil(name, value, index=0):
    """Returns a change of one value of the features of a record."""

    def change(features):
        features[name] = features[name].copy()
        features[name][index] = value

    return change


def pads_a_prediction(features):
    features["masked_lm_positions"][0] = 63
    features["input_mask"][63] = 0


def forgets_mask(features):
    features["input_mask"][:] = 0


def has_two_labels(features):
    features["next_sentence_labels"] = np.array([0, 1])


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
        (spoil("masked_lm_weights", -1.0), "weights must be finite, and not"),
        (spoil("masked_lm_weights", np.nan), "weights must be finite, and not"),
        (spoil("masked_lm_weights", np.inf), "weights must be finite, and not"),
        (forgets_mask, "input_mask is 0 everywhere"),
        (pads_a_prediction, "a prediction where input_mask is 0"),
        (has_two_labels, "does not have 64 tokens and 10 predictions like the"),
    ],
)
def test_values_that_cannot_be_trained_on(spoiled, change, message):
    """In one record, that opening the files does not look at."""
    assert_refused(spoiled(change), message, training=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (spoil("input_ids", 200), "input_ids must be from 0 to 199"),
        (has_two_labels, "does not have 64 tokens and 10 predictions like the"),
    ],
)
def test_training_finds_such_values_too(spoiled, change, message):
    """Records are checked alike, but read in another order."""
    assert_refused(spoiled(change), message, training=True)


def assert_refused(path, message, training):
    records = open_records(path)
    records.check_model(FITTING)
    batches = records.dataset(8, training=training, model=FITTING)
    with (
        pytest.raises(InputError, match=message) as caught,
        records.explained_errors(FITTING),
    ):
        list(batches.take(300))
    assert str(caught.value).startswith(f"records {path}: record 1003: ")


@pytest.fixture
def spoiled(tmp_path):
    """Returns `spoiled(change)`: a file whose record 1003 is changed."""

    def make(change):
        features = {
            "input_ids": np.arange(64),
            "input_mask": np.ones(64, np.int64),
            "segment_ids": np.arange(64) // 32,
            "token_boundary": np.ones(64, np.int64),
            "masked_lm_positions": np.arange(1, 11),
            "masked_lm_ids": np.arange(10, 20),
            "masked_lm_weights": np.ones(10, np.float32),
            "next_sentence_labels": np.zeros(1, np.int64),
        }

        def serialize():
            row = {name: values[None] for name, values in features.items()}
            return serialize_examples(row)

        [good] = serialize()
        change(features)
        [bad] = serialize()
        records = [good] * 1002 + [bad] + [good] * 7
        return write_records(tmp_path / "a.tfrecord", *records)

    return make


def test_a_record_may_have_no_prediction_but_not_all(spoiled, create, tmp_path):
    """A short one has none if each of its words is larger than its quota."""

    def forget_weights(features):
        features["masked_lm_weights"][:] = 0

    path = spoiled(forget_weights)
    records = open_records(path)
    assert records.verify(FITTING) == 1010
    (bad,) = (
        record.numpy()
        for record in record_files.read_records(str(path)).skip(1002).take(1)
    )
    path = write_records(tmp_path / "b.tfrecord", *[bad] * 20)
    records = open_records(path)
    with (
        pytest.raises(InputError, match="weights are 0 in all records"),
        records.explained_errors(FITTING),
    ):
        list(records.dataset(8, model=FITTING).take(1))
    folder, _ = create("no_masks", masked_lm_prob=0.0)
    batch = next(iter(open_records(folder).dataset(8)))
    assert not batch["masked_lm_weights"].numpy().any()
