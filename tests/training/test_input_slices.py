import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training.input_slices import (
    distribute,
    slice_size,
    static_batch_size,
)


def test_replicas_get_consecutive_slices_of_every_batch(two_replicas):
    batches = tf.data.Dataset.range(14).batch(8)
    seen = [
        [part.numpy().tolist() for part in values.values]
        for values in distribute(two_replicas, batches)
    ]
    assert seen == [
        [[0, 1, 2, 3], [4, 5, 6, 7]],
        [[8, 9, 10], [11, 12, 13]],
    ]


def test_a_slice_may_be_empty(two_replicas):
    batches = tf.data.Dataset.range(5).batch(4)
    *_, last = distribute(two_replicas, batches)
    assert [part.numpy().tolist() for part in last.values] == [[], [4]]


def test_one_device_gets_whole_batches(one_device):
    batches = tf.data.Dataset.range(6).batch(4)
    seen = [batch.numpy().tolist() for batch in distribute(one_device, batches)]
    assert seen == [[0, 1, 2, 3], [4, 5]]


def test_static_batch_size():
    data = tf.data.Dataset.from_tensor_slices({"a": np.zeros((9, 2))})
    assert static_batch_size(data.batch(4, drop_remainder=True)) == 4
    with pytest.raises(InputError, match="drop_remainder"):
        static_batch_size(data.batch(4))


def test_batch_must_divide_into_slices():
    assert slice_size(24, 2, 3) == 4
    with pytest.raises(InputError, match="10 must be a multiple of 6"):
        slice_size(10, 2, 3)
