import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.data.experimental.ops.distribute import replicate

from albert_tf.errors import InputError
from albert_tf.finetuning.batches import prediction_batches, training_batches
from albert_tf.training.input import static_batch_size


@pytest.fixture(scope="module")
def make_features(features_of):
    """Returns `make(examples, sequences_per_example=1)`.

    Features have 5 to 39 tokens; label n is example n.
    """

    def make(examples, sequences_per_example=1):
        rng = np.random.default_rng(0)
        lengths = rng.integers(5, 40, examples * sequences_per_example)
        return features_of(
            [rng.integers(8, 100, n) for n in lengths],
            [rng.integers(0, 2, n) for n in lengths],
            {"token_labels": [rng.integers(0, 9, n) for n in lengths]},
            padding=-1,
            pad_id=7,
            sequences_per_example=sequences_per_example,
            labels=np.arange(examples),
            scores=rng.random((examples, 2)),
        )

    return make


def read(features, count, **settings):
    settings = {"batch_size": 8, "seed": 3, "window_batches": 2} | settings
    dataset = training_batches(features, **settings).take(count)
    return list(dataset.as_numpy_iterator())


def labels(batches):
    return np.concatenate([batch["labels"] for batch in batches]).tolist()


def assert_same(batch, other):
    assert batch.keys() == other.keys()
    for name, values in batch.items():
        np.testing.assert_array_equal(values, other[name])
        assert values.dtype == other[name].dtype


# Fewer examples than a batch, one batch, and incomplete batches and windows.
@pytest.mark.parametrize("examples", [1, 8, 50, 103])
def test_an_epoch_has_every_example_once(make_features, examples):
    batches = read(make_features(examples), 30)
    assert {len(batch["labels"]) for batch in batches} == {8}
    seen = labels(batches)
    epochs = [
        seen[i : i + examples]
        for i in range(0, len(seen) - examples + 1, examples)
    ]
    for epoch in epochs:
        assert sorted(epoch) == list(range(examples))
    if examples > 8:
        assert epochs[0] != epochs[1]


@pytest.mark.parametrize(
    ("examples", "starts"), [(3, [7, 29]), (50, [1, 7, 13, 29])]
)
def test_resumed_run_reads_the_same_batches(make_features, examples, starts):
    features = make_features(examples)
    expected = read(features, 32)
    for start in starts:
        resumed = read(features, 3, start_step=start)
        for batch, other in zip(
            resumed, expected[start : start + 3], strict=True
        ):
            assert_same(batch, other)


def test_order_depends_on_the_seed_only(make_features):
    features = make_features(50)
    order = labels(read(features, 8))
    tf.random.set_seed(5)
    assert labels(read(features, 8)) == order
    assert labels(read(features, 8, seed=4)) != order
    # The same with a fixed length, so that a TPU reads the same batches.
    assert labels(read(features, 8, fixed_length=64)) == order


def test_shuffling_is_global(make_features):
    # A batch of 8 out of 4000 in order would span 8.
    features = make_features(4000)
    [first] = read(features, 1, window_batches=1)
    assert np.ptp(first["labels"]) > 1000


def test_windows_have_batches_of_similar_length_in_random_order(make_features):
    features = make_features(800)
    batches = read(features, 100, window_batches=50)
    lengths = [batch["input_mask"].sum(axis=1) for batch in batches]
    padding = 1 - np.concatenate(lengths).sum() / sum(
        batch["input_mask"].size for batch in batches
    )
    assert padding < 0.03
    unsorted = read(features, 100, window_batches=1)
    assert np.mean([1 - b["input_mask"].mean() for b in unsorted]) > 0.3
    means = [x.mean() for x in lengths[:50]]
    assert abs(np.corrcoef(means, range(50))[0, 1]) < 0.5
    # Every window has batches of all lengths.
    assert min(means) < 10
    assert max(means) > 35


def test_shapes_are_static_where_possible(make_features):
    settings = {"batch_size": 4, "seed": 0}
    dataset = training_batches(make_features(9, 2), **settings)
    assert static_batch_size(dataset) == 4
    spec = {name: x.shape for name, x in dataset.element_spec.items()}
    assert spec["scores"] == [4, 2]
    assert spec["token_labels"].as_list() == [4, 2, None]
    fixed = training_batches(make_features(9), fixed_length=40, **settings)
    for name in (
        "input_word_ids",
        "input_mask",
        "input_type_ids",
        "token_labels",
    ):
        assert fixed.element_spec[name] == tf.TensorSpec([4, 40], tf.int32)
    assert fixed.element_spec["scores"].dtype == tf.float32


def test_dataset_can_be_replicated_to_another_host(make_features):
    dataset = training_batches(make_features(20), batch_size=4, seed=0)
    # A shorter name than the dataset's own, so it is made again from its graph.
    [copy] = replicate(dataset, ["/device:CPU:0"]).values()
    for batch, other in zip(dataset.take(6), copy.take(6), strict=True):
        assert_same(
            {name: x.numpy() for name, x in batch.items()},
            {name: x.numpy() for name, x in other.items()},
        )


def test_no_examples_raise_an_error(make_features):
    with pytest.raises(InputError, match="no examples"):
        read(make_features(0), 1)


@pytest.mark.parametrize("sequences_per_example", [1, 3])
@pytest.mark.parametrize("fixed_length", [None, 40])
def test_prediction_batches_restore_the_order(
    make_features, sequences_per_example, fixed_length
):
    features = make_features(21, sequences_per_example)
    outputs = np.full(21, -1)
    longest, sizes = [], []
    for indices, batch in prediction_batches(
        features, batch_size=4, fixed_length=fixed_length
    ):
        assert_same(batch, features.pad(indices, length=fixed_length))
        outputs[indices] = batch["labels"]
        longest.append(features.example_lengths[indices].max())
        sizes.append(len(indices))
    assert outputs.tolist() == list(range(21))
    assert longest == sorted(longest, reverse=True)
    assert sizes == [4] * 5 + [1]
    assert list(prediction_batches(make_features(0), batch_size=4)) == []
    with pytest.raises(InputError, match="fixed_length=4: a sequence has"):
        next(prediction_batches(features, batch_size=4, fixed_length=4))
    with pytest.raises(InputError, match="fixed_length=4: a sequence has"):
        read(features, 1, fixed_length=4)


def test_positions_are_as_wide_as_the_batch_needs(features_of):
    """One text of many masks must not make those of other batches wide."""
    positions = [[1, 2, 3, 4], [1, 0, 0, 0], [1, 3, 0, 0]]
    features = features_of(
        [range(5, 5 + n) for n in (9, 8, 7)], masked_lm_positions=positions
    )
    batches = list(prediction_batches(features, batch_size=1))
    for (_, batch), width, row in zip(
        batches, (4, 1, 2), positions, strict=True
    ):
        assert batch["masked_lm_positions"].tolist() == [row[:width]]
