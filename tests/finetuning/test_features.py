import dataclasses

import numpy as np
import pytest

from albert_tf.finetuning.features import FeaturesBuilder


@pytest.fixture
def features(features_of):
    return features_of(
        [[2, 7, 3], [2, 3], [2, 5, 3, 6, 3]],
        [[0, 0, 0], [0, 0], [0, 0, 0, 1, 1]],
        token_columns={"p_mask": [[0, 1, 1], [0, 1], [0] * 5]},
        padding=1,
        pad_id=9,
        labels=np.array([4, 5, 6], np.int64),
        scores=[0.5, 1.5, 2.5],
    )


def test_batches_are_padded_to_the_longest_sequence(features):
    batch = features.pad([0, 1])
    expected = {
        "input_word_ids": [[2, 7, 3], [2, 3, 9]],
        "input_mask": [[1, 1, 1], [1, 1, 0]],
        "input_type_ids": [[0, 0, 0], [0, 0, 0]],
        "p_mask": [[0, 1, 1], [0, 1, 1]],
        "labels": [4, 5],
        "scores": [0.5, 1.5],
    }
    assert {name: x.tolist() for name, x in batch.items()} == expected
    assert {name: x.dtype for name, x in batch.items()} == {
        **dict.fromkeys(expected, np.int32),
        "scores": np.float32,
    }


def test_batches_are_padded_to_a_fixed_length(features):
    batch = features.pad([2], length=6)
    assert batch["input_word_ids"].tolist() == [[2, 5, 3, 6, 3, 9]]
    assert batch["input_type_ids"].tolist() == [[0, 0, 0, 1, 1, 0]]
    assert batch["p_mask"].tolist() == [[0, 0, 0, 0, 0, 1]]
    with pytest.raises(ValueError, match="a sequence has 5 tokens, more than"):
        features.pad([2], length=4)


def test_examples_of_several_sequences(features_of):
    features = features_of(
        [range(10, 10 + length) for length in (2, 4, 3, 3, 5, 1)],
        sequences_per_example=2,
        labels=[0, 1, 0],
    )
    assert len(features) == 6
    assert features.num_examples == 3
    assert features.lengths.tolist() == [2, 4, 3, 3, 5, 1]
    assert features.example_lengths.tolist() == [4, 3, 5]
    batch = features.pad([2, 1])
    assert batch["input_mask"].tolist() == [
        [[1, 1, 1, 1, 1], [1, 0, 0, 0, 0]],
        [[1, 1, 1, 0, 0], [1, 1, 1, 0, 0]],
    ]
    assert batch["labels"].tolist() == [0, 1]


def test_features_may_be_empty():
    features = FeaturesBuilder().build(labels=[])
    assert features.num_examples == 0
    assert features.pad([])["input_word_ids"].shape == (0, 0)


def test_inconsistent_features_are_refused(features, features_of):
    with pytest.raises(ValueError, match="column labels must have a value"):
        features_of([[1]], labels=[1, 2])
    with pytest.raises(ValueError, match="names must be unique"):
        features_of([[1]], input_mask=[1])
    with pytest.raises(ValueError, match="must not hold objects"):
        features_of([[1]], labels=np.array([None]))
    for change in (
        {"types": features.types[1:]},
        {"starts": features.starts[:-1]},
        {"starts": features.starts[::-1]},
        {"sequences_per_example": 2},
        {"token_padding": {}},
    ):
        with pytest.raises(ValueError, match=next(iter(change))[:4]):
            dataclasses.replace(features, **change)
