import pytest
import tensorflow as tf

from albert_tf.tensor_ops import fold_in


@pytest.mark.parametrize(
    ("type_of_number", "expected"),
    [(tf.int32, 805153700), (tf.int64, 8300880858537896868)],
)
def test_seeds_are_those_of_earlier_runs(type_of_number, expected):
    """Other seeds would give a run that is resumed other batches."""
    number = tf.constant(3, type_of_number)
    for type_of_seed in (tf.int32, tf.int64):
        seed = fold_in(tf.constant([7, 3], type_of_seed), number)
        assert seed.dtype == type_of_number
        assert seed.numpy().tolist() == [expected, 3]
