import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.pretraining.record_writer import (
    FLOAT_FEATURES,
    INT_FEATURES,
    parse_example,
    serialize_examples,
)


@pytest.fixture(scope="module")
def features():
    rng = np.random.default_rng(0)
    shapes = {"next_sentence_labels": 1} | {
        name: 5 if name.startswith("masked_lm") else 9
        for name in (*INT_FEATURES, *FLOAT_FEATURES)
        if name != "next_sentence_labels"
    }
    return {
        name: rng.integers(0, 30000, (4, width)).astype(
            np.float32 if name in FLOAT_FEATURES else np.int32
        )
        for name, width in shapes.items()
    }


def test_bytes_are_those_of_tensorflow(features):
    for row, record in enumerate(serialize_examples(features)):
        example = tf.train.Example()
        for name in INT_FEATURES:
            example.features.feature[name].int64_list.value.extend(
                features[name][row]
            )
        for name in FLOAT_FEATURES:
            example.features.feature[name].float_list.value.extend(
                features[name][row]
            )
        assert record == example.SerializeToString(deterministic=True)


def test_parsing_returns_what_was_serialized(features):
    for row, record in enumerate(serialize_examples(features)):
        parsed = parse_example(record)
        assert sorted(parsed) == sorted(features)
        for name, values in parsed.items():
            np.testing.assert_array_equal(values, features[name][row])
            wanted = np.float32 if name in FLOAT_FEATURES else np.int64
            assert values.dtype == wanted


def test_other_bytes_are_refused():
    with pytest.raises(ValueError, match="not a serialized Example"):
        parse_example(b"hello")


def test_googles_records_have_the_same_features(shared, read_records):
    path = shared("golden", "google", "pretraining_data", "sop.tfrecord")
    records = read_records(path)
    assert sorted(records) == sorted((*INT_FEATURES, *FLOAT_FEATURES))
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


def test_workers_do_not_import_tensorflow():
    """Each would take seconds and half a gigabyte to start."""
    code = (
        "import sys, albert_tf.pretraining.worker_pool;"
        "import albert_tf.text.sentencepiece_tokenizer;"
        "print('tensorflow' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "False"
