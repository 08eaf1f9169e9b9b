import numpy as np
import pytest

from albert_tf.interop.transforms import Transform


@pytest.mark.parametrize(
    ("transform", "theirs"),
    [
        (Transform(), (4, 6)),
        (Transform("transpose"), (6, 4)),
        (Transform("split_last", 3), (4, 3, 2)),
        (Transform("split_first", 2), (2, 2, 6)),
    ],
)
def test_there_and_back(transform, theirs):
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    assert transform.shape(array.shape) == theirs
    there = transform.to_theirs(array)
    assert there.shape == theirs
    back = transform.to_ours(there, array.shape)
    np.testing.assert_array_equal(back, array)


def test_heads_lie_side_by_side():
    query = np.arange(12).reshape(2, 6)
    split = Transform("split_last", 3).to_theirs(query)
    np.testing.assert_array_equal(split[:, 1], query[:, 2:4])
    output = np.arange(12).reshape(6, 2)
    split = Transform("split_first", 3).to_theirs(output)
    np.testing.assert_array_equal(split[1], output[2:4])
