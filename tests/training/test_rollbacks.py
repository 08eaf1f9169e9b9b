import pytest
import tensorflow as tf

from albert_tf.training.rollbacks import Rollback, batch_of, batches_from

# Of the first run of updates 3 and 4; of what is then update 4, and of 1 to 4.
ROLLBACKS = [Rollback(5, 3, 4), Rollback(5, 6, 6), Rollback(5, 1, 8)]


@pytest.mark.parametrize(
    ("rollbacks", "batches"),
    [
        (ROLLBACKS[:0], [0, 1, 2, 3, 4, 5, 6]),
        (ROLLBACKS[:1], [0, 1, 2, 5, 6, 7, 8]),
        (ROLLBACKS[:2], [0, 1, 2, 5, 7, 8, 9]),
        (ROLLBACKS, [0, 9, 10, 11, 12, 13, 14]),
    ],
)
def test_batches_without_those_left_out(rollbacks, batches):
    assert [batch_of(update, rollbacks) for update in range(7)] == batches
    for start in range(7):
        dataset = batches_from(
            lambda first: tf.data.Dataset.range(first, 30), start, rollbacks
        )
        assert list(dataset.as_numpy_iterator())[: 7 - start] == batches[start:]


def test_without_rollbacks_the_dataset_is_as_it_was():
    dataset = tf.data.Dataset.range(10)
    assert batches_from(lambda _: dataset, 3, ()) is dataset


def test_shapes_stay_static():
    dataset = tf.data.Dataset.range(40).batch(4, drop_remainder=True)
    left = batches_from(lambda first: dataset.skip(first), 0, ROLLBACKS[:1])
    assert left.element_spec == dataset.element_spec
