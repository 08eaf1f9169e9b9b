import numpy as np
import pytest

from albert_tf.data.packing import pack_pairs
from albert_tf.data.sentence_pairs import SentencePairs
from albert_tf.data.vocabulary_table import VocabularyTable

# Ids 10..29 are text; even ones begin a word.
TABLE = VocabularyTable(
    pad_id=0,
    cls_id=2,
    sep_id=3,
    mask_id=4,
    word_starts=np.arange(30) % 2 == 0,
)
TOKENS = np.arange(10, 30, dtype=np.int32)


def pack(*pairs, length=10):
    return pack_pairs(TOKENS, SentencePairs(*np.array(pairs).T), TABLE, length)


def test_two_segments():
    packed = pack((0, 2, 5, 3, 1), (8, 1, 0, 6, 0))
    np.testing.assert_array_equal(
        packed.input_ids,
        [
            [2, 10, 11, 3, 15, 16, 17, 3, 0, 0],
            [2, 18, 3, 10, 11, 12, 13, 14, 15, 3],
        ],
    )
    np.testing.assert_array_equal(
        packed.input_mask, [[1] * 8 + [0] * 2, [1] * 10]
    )
    np.testing.assert_array_equal(
        packed.segment_ids,
        [[0, 0, 0, 0, 1, 1, 1, 1, 0, 0], [0, 0, 0, 1, 1, 1, 1, 1, 1, 1]],
    )
    np.testing.assert_array_equal(
        packed.token_boundary,
        [[1, 1, 0, 1, 0, 1, 0, 1, 0, 0], [1, 1, 1, 1, 0, 1, 0, 1, 0, 1]],
    )
    np.testing.assert_array_equal(
        packed.is_text,
        [[0, 1, 1, 0, 1, 1, 1, 0, 0, 0], [0, 1, 0, 1, 1, 1, 1, 1, 1, 0]],
    )


def test_one_segment_ends_with_one_separator():
    packed = pack((3, 4, 7, 0, 0))
    np.testing.assert_array_equal(
        packed.input_ids, [[2, 13, 14, 15, 16, 3, 0, 0, 0, 0]]
    )
    assert packed.input_mask.sum() == 6
    assert not packed.segment_ids.any()


@pytest.mark.parametrize("length", [7, 12])
def test_rows_of_any_number_are_padded(length):
    packed = pack((0, 2, 2, 2, 0), (4, 2, 6, 2, 0), length=length)
    assert packed.input_ids.shape == (2, length)
    assert packed.input_ids.dtype == np.int32
    assert (packed.input_ids[:, 7:] == TABLE.pad_id).all()
