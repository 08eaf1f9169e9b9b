import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training.input import (
    distribute,
    per_replica_slices,
    slice_size,
    static_batch_size,
)


def test_replicas_get_consecutive_slices_of_every_batch(two_replicas):
    batches = tf.data.Dataset.range(14).batch(8)
    seen = [
        [part.numpy().tolist() for part in values.values]
        for values in distribute(two_replicas, batches)
    ]
    assert seen == [[[0, 1, 2, 3], [4, 5, 6, 7]], [[8, 9, 10], [11, 12, 13]]]


def test_a_slice_may_be_empty(two_replicas):
    batches = tf.data.Dataset.range(5).batch(4)
    *_, last = distribute(two_replicas, batches)
    assert [part.numpy().tolist() for part in last.values] == [[], [4]]


def test_one_device_gets_whole_batches(one_device):
    batches = tf.data.Dataset.range(6).batch(4)
    seen = [batch.numpy().tolist() for batch in distribute(one_device, batches)]
    assert seen == [[0, 1, 2, 3], [4, 5]]
    # Without a thread that copies them to a device.
    for strategy in (one_device, tf.distribute.get_strategy()):
        assert distribute(strategy, batches) is batches


@pytest.mark.parametrize("hosts", [1, 2, 4])
@pytest.mark.parametrize(("examples", "batch_size"), [(32, 16), (27, 12)])
def test_hosts_share_out_every_batch(hosts, examples, batch_size):
    replicas = 8
    batches = tf.data.Dataset.range(examples).batch(batch_size)
    read = [
        [
            values.tolist()
            for values in per_replica_slices(
                batches, tf.distribute.InputContext(hosts, host, replicas)
            ).as_numpy_iterator()
        ]
        for host in range(hosts)
    ]
    here = replicas // hosts
    for number, batch in enumerate(batches.as_numpy_iterator()):
        # What the replicas get, host after host: the batch, in order, once.
        parts = [
            part
            for host in read
            for part in host[number * here : (number + 1) * here]
        ]
        assert len(parts) == replicas
        assert sum(parts, []) == batch.tolist()
        sizes = {len(part) for part in parts}
        assert max(sizes) - min(sizes) <= 1
    assert {len(host) for host in read} == {(number + 1) * here}


def test_slices_have_a_static_size_where_batches_have():
    context = tf.distribute.InputContext(2, 1, 4)
    data = tf.data.Dataset.from_tensor_slices(
        {"ids": np.zeros((16, 3)), "label": np.zeros(16)}
    )
    spec = per_replica_slices(data.batch(8, drop_remainder=True), context)
    shapes = tf.nest.map_structure(lambda x: x.shape, spec.element_spec)
    assert shapes == {"ids": [2, 3], "label": [2]}
    spec = per_replica_slices(data.batch(8), context).element_spec
    assert spec["ids"].shape.as_list() == [None, 3]


@pytest.mark.slow
def test_another_host_reads_slices_of_a_dataset_made_here():
    # As on a TPU pod: one process runs all hosts, each reads for its replicas.
    program = pathlib.Path(__file__).with_name("another_host.py")
    result = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["worker", "4,6", "worker", "12,14"]


def test_static_batch_size():
    data = tf.data.Dataset.from_tensor_slices({"a": np.zeros((9, 2))})
    assert static_batch_size(data.batch(4, drop_remainder=True)) == 4
    with pytest.raises(InputError, match="drop_remainder"):
        static_batch_size(data.batch(4))


def test_batch_must_divide_into_slices():
    assert slice_size(24, 2, 3) == 4
    with pytest.raises(InputError, match="10 must be a multiple of 6"):
        slice_size(10, 2, 3)


def test_training_data_are_declared_endless(one_device, two_replicas):
    # Whose number of batches TensorFlow does not know.
    unknown = tf.data.Dataset.range(8).batch(4).filter(lambda x: True)
    assert distribute(two_replicas, unknown).cardinality == -2
    endless = distribute(two_replicas, unknown, endless=True)
    assert endless.cardinality == tf.data.INFINITE_CARDINALITY
    endless = distribute(one_device, unknown, endless=True)
    assert endless.cardinality() == tf.data.INFINITE_CARDINALITY
