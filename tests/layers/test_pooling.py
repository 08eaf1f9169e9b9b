"""Means over tokens, of rows and of the two texts of a row."""

import numpy as np
import pytest

from albert_tf.finetuning.text_classification.model import AlbertPairClassifier
from albert_tf.layers.pooling import mean_pooling, pair_features, segment_masks

# [CLS] a a [SEP] b b b [SEP], padding; an empty second text; an empty first
# one; no second text; two empty ones.
TYPES = np.array(
    [
        [0, 0, 0, 0, 1, 1, 1, 1, 0, 0],
        [0, 0, 0, 0, 1, 0, 0, 0, 0, 0],
        [0, 0, 1, 1, 1, 1, 1, 1, 1, 1],
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
    ]
)
LENGTHS = np.array([8, 5, 10, 6, 3])
MASK = (np.arange(10) < LENGTHS[:, None]).astype(np.int32)
FIRST = [[1, 2], [1, 2], [], [1, 2, 3, 4], []]
SECOND = [[4, 5, 6], [], [2, 3, 4, 5, 6, 7, 8], [], []]


def test_masks_leave_special_tokens_out():
    for found, expected in zip(
        segment_masks(MASK, TYPES), (FIRST, SECOND), strict=True
    ):
        places = [np.flatnonzero(row).tolist() for row in np.asarray(found)]
        assert places == expected
        assert set(np.unique(found)) == {0, 1}


def test_mean_of_tokens():
    states = np.random.default_rng(0).normal(0, 1, (5, 10, 4)).astype("float32")
    found = np.asarray(mean_pooling(states, segment_masks(MASK, TYPES)[0]))
    for row, places in enumerate(FIRST):
        expected = states[row, places].mean(0) if places else np.zeros(4)
        np.testing.assert_allclose(found[row], expected, rtol=1e-6, atol=1e-7)


def test_weighted_mean_of_tokens():
    rng = np.random.default_rng(0)
    states = rng.normal(0, 1, (5, 10, 4)).astype("float32")
    weights = rng.uniform(0, 0.1, (5, 10)).astype("float32")
    mask = segment_masks(MASK, TYPES)[0]
    found = np.asarray(mean_pooling(states, mask, weights))
    for row, places in enumerate(FIRST):
        expected = np.zeros(4)
        if places:
            expected = np.average(
                states[row, places], axis=0, weights=weights[row, places]
            )
        # Quotients of small sums in float32.
        np.testing.assert_allclose(found[row], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("packed", [True, False])
def test_classifier_of_pair_features(config, packed):
    config = config.replace(max_position_embeddings=16)
    model = AlbertPairClassifier(config, 3, packed=packed)
    ids = np.random.default_rng(0).integers(1, config.vocab_size, MASK.shape)
    inputs = {
        "input_word_ids": ids * MASK,
        "input_mask": MASK,
        "input_type_ids": TYPES,
    }
    states = np.asarray(model.encoder(inputs)["sequence_output"])
    u, v = (
        np.stack(
            [
                states[row, places].mean(0)
                if places
                else np.zeros(config.hidden_size)
                for row, places in enumerate(each)
            ]
        )
        for each in (FIRST, SECOND)
    )
    features = np.concatenate([u, v, np.abs(u - v), u * v], axis=1)
    np.testing.assert_allclose(pair_features(u, v), features, rtol=1e-6)
    head = model.pair_head
    expected = features @ np.asarray(head.kernel) + np.asarray(head.bias)
    np.testing.assert_allclose(model(inputs), expected, rtol=0, atol=1e-5)
