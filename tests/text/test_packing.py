import random
import types

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text as tf_text

from albert_tf.array_ops import ArrayOps
from albert_tf.tensor_ops import TensorOps
from albert_tf.text.packing import make_segment, pack, pack_to_longest
from albert_tf.text.preprocessor import GraphPreprocessor

SPECIALS = types.SimpleNamespace(pad_id=0, cls_id=2, sep_id=3)


def pack_ragged(segments, seq_length):
    preprocessor = types.SimpleNamespace(ops=TensorOps(), tokenizer=SPECIALS)
    return GraphPreprocessor.bert_pack_inputs(
        preprocessor, segments, seq_length
    )


def packed_in_numpy(*segments, seq_length):
    segments = [make_segment(segment) for segment in segments]
    return pack(ArrayOps(), SPECIALS, segments, seq_length)


def rows(count, seed, longest=12):
    generator = random.Random(seed)
    return [
        [
            generator.randrange(5, 99)
            for _ in range(generator.randrange(longest))
        ]
        for _ in range(count)
    ]


def as_tf_text_packs(segments, seq_length):
    """The reference: TF Text's own operations, as Model Garden uses them."""
    budget = seq_length - 1 - len(segments)
    trimmed = tf_text.RoundRobinTrimmer(budget).trim(segments)
    ids, types = tf_text.combine_segments(trimmed, 2, 3)
    ids, mask = tf_text.pad_model_inputs(ids, seq_length, 0)
    types, _ = tf_text.pad_model_inputs(types, seq_length, 0)
    return {"input_word_ids": ids, "input_mask": mask, "input_type_ids": types}


def assert_equal(packed, expected):
    assert packed.keys() == expected.keys()
    for name, values in packed.items():
        assert np.asarray(values).dtype == np.int32
        np.testing.assert_array_equal(values, expected[name], err_msg=name)


@pytest.mark.parametrize("segment_count", [1, 2])
@pytest.mark.parametrize("seq_length", [3, 4, 5, 6, 9, 16, 40])
def test_both_pack_as_tf_text(segment_count, seq_length):
    segments = [rows(200, seed) for seed in range(segment_count)]
    ragged = [tf.ragged.constant(s, tf.int32) for s in segments]
    expected = as_tf_text_packs(ragged, seq_length)
    assert_equal(pack_ragged(ragged, seq_length), expected)
    assert_equal(packed_in_numpy(*segments, seq_length=seq_length), expected)


def test_pads_to_the_longest_row():
    segment = make_segment([[10], [10, 11, 12]])
    packed = pack_to_longest(ArrayOps(), SPECIALS, [segment], 4)
    assert packed["input_word_ids"].tolist() == [[2, 10, 3, 0], [2, 10, 11, 3]]
    assert packed["input_mask"].tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]
    packed = pack_to_longest(ArrayOps(), SPECIALS, [segment], 9, multiple=4)
    assert packed["input_mask"].sum(axis=1).tolist() == [3, 5]
    assert packed["input_mask"].shape == (2, 8)


def test_empty_batches_and_segments():
    empty = packed_in_numpy([], seq_length=8)
    assert empty["input_word_ids"].shape == (0, 8)
    nothing = tf.RaggedTensor.from_row_splits(tf.zeros([0], tf.int32), [0])
    packed = pack_ragged([nothing, nothing], 8)
    assert packed["input_mask"].shape == (0, 8)
    packed = pack_ragged([tf.ragged.constant([[]], tf.int32)], 4)
    assert packed["input_word_ids"].numpy().tolist() == [[2, 3, 0, 0]]


def test_words_of_pieces_are_joined():
    words = tf.ragged.constant([[[10, 11], [12]], [], [[13]]], tf.int32)
    assert_equal(
        pack_ragged([words, words], 7),
        pack_ragged([words.merge_dims(1, 2)] * 2, 7),
    )


def test_length_may_be_a_tensor():
    segment = tf.ragged.constant(rows(5, 0), tf.int32)

    @tf.function(input_signature=[tf.TensorSpec([], tf.int32)])
    def packed(seq_length):
        return pack_ragged([segment, segment], seq_length)

    for length in (3, 10):
        assert_equal(packed(length), pack_ragged([segment, segment], length))
    with pytest.raises(tf.errors.InvalidArgumentError, match="at least 3"):
        packed(2)


def test_invalid_arguments_of_packing():
    segment = tf.ragged.constant([[10], [11, 12]], tf.int32)
    with pytest.raises(ValueError, match="1 or 2 ragged tensors, not of 3"):
        pack_ragged([segment] * 3, 8)
    with pytest.raises(ValueError, match="segments must be a list"):
        pack_ragged(segment, 8)
    with pytest.raises(ValueError, match=r"segments\[1\] must be ragged"):
        pack_ragged([segment, tf.ones([2, 3], tf.int32)], 8)
    with pytest.raises(ValueError, match="seq_length=2 must be at least 3"):
        pack_ragged([segment, segment], 2)
    with pytest.raises(tf.errors.InvalidArgumentError, match="same batch"):
        pack_ragged([segment, segment[:1]], 8)
