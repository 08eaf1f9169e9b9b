import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.tfrecords import (
    FEATURE_OF_INPUT,
    Ragged,
    frame_records,
    parse_example,
    serialize_examples,
)


@pytest.fixture(scope="module")
def features():
    rng = np.random.default_rng(0)
    return {
        name: rng.integers(0, 30000, (4, 9)).astype(
            np.float32 if name.endswith("weights") else np.int32
        )
        for name in [*FEATURE_OF_INPUT.values(), "token_boundary"]
    }


def test_bytes_equal_tensorflows(features):
    for row, record in enumerate(serialize_examples(features)):
        lists = {name: values[row] for name, values in features.items()}
        assert record == tensorflows_bytes(lists)
        np.testing.assert_equal(parse_example(record), lists)


def tensorflows_bytes(lists):
    example = tf.train.Example()
    for name, values in lists.items():
        feature = example.features.feature[name]
        is_float = name.endswith("weights")
        kind = feature.float_list if is_float else feature.int64_list
        kind.value.extend(values)
    return example.SerializeToString(deterministic=True)


def test_bytes_of_ragged_features_equal_tensorflows():
    rows = [
        [],
        [0, 127, 128, 16383, 16384, 2**31, 2**62, 2**63 - 1],
        [-1, -(2**63)],
        [1] * 200,
        list(range(20000)),
    ]
    values = np.concatenate([np.array(row, np.int64) for row in rows])
    splits = np.cumsum([0, *map(len, rows)])
    records = serialize_examples(
        {"b": Ragged(values, splits), "a": np.zeros((len(rows), 0), np.int64)}
    )
    for row, record in zip(rows, records, strict=True):
        assert record == tensorflows_bytes({"b": row, "a": []})
    assert serialize_examples({"b": Ragged(values[:0], splits[:1])}) == []


def test_ragged_from_slices():
    ragged = Ragged.from_slices(
        np.arange(10, 20), np.array([7, 0, 3, 3]), np.array([9, 2, 3, 6])
    )
    rows = [ragged[row].tolist() for row in range(4)]
    assert rows == [[17, 18], [10, 11], [], [13, 14, 15]]
    assert ragged.row_of_value.tolist() == [0, 0, 1, 1, 3, 3, 3]
    chosen = ragged.select(np.array([False, True, True, True]))
    assert len(chosen) == 3
    assert [chosen[row].tolist() for row in range(3)] == rows[1:]


def test_frames_equal_tensorflows(tmp_path, write_records):
    rng = np.random.default_rng(0)
    lengths = [*range(70), 4092, 4096, 4100, 100_000]
    records = [rng.bytes(length) for length in lengths] + [b"\0" * 9]
    path = write_records(tmp_path / "expected.tfrecord", *records)
    frames = frame_records(records)
    assert b"".join(frames) == path.read_bytes()
    assert frame_records([]) == []


def test_parsing_other_bytes_is_an_error():
    with pytest.raises(ValueError, match="not a serialized Example"):
        parse_example(b"hello")


def test_googles_records_have_the_same_features(shared, read_records):
    path = shared("golden", "google", "pretraining_data", "sop.tfrecord")
    records = read_records(path)
    shapes = {name: values.shape[1:] for name, values in records.items()}
    assert shapes == {
        "input_ids": (128,),
        "input_mask": (128,),
        "segment_ids": (128,),
        "token_boundary": (128,),
        "masked_lm_positions": (20,),
        "masked_lm_ids": (20,),
        "masked_lm_weights": (20,),
        "next_sentence_labels": (1,),
    }


def test_creating_data_does_not_import_tensorflow():
    """Each worker would need seconds and half a gigabyte to start."""
    code = (
        "import sys, albert_tf.data.create_data;"
        "import albert_tf.text.sentencepiece_tokenizer;"
        "print('tensorflow' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "False"
