import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.data.experimental.ops.distribute import replicate

from albert_tf.errors import InputError
from albert_tf.finetuning.batches import prediction_batches, training_batches
from albert_tf.finetuning.features import FeaturesBuilder
from albert_tf.training.input import static_batch_size


def make_rows(examples, sequences_per_example=1):
    """Features of 5 to 39 tokens; label n is example n."""
    rng = np.random.default_rng(0)
    builder = FeaturesBuilder(
        pad_id=7,
        sequences_per_example=sequences_per_example,
        token_padding={"token_labels": -1},
    )
    for _ in range(examples * sequences_per_example):
        length = int(rng.integers(5, 40))
        builder.append(
            rng.integers(8, 100, length),
            rng.integers(0, 2, length),
            token_labels=rng.integers(0, 9, length),
        )
    return builder.build(
        labels=np.arange(examples), scores=rng.random((examples, 2))
    )


def read(rows, count, **settings):
    settings = {"batch_size": 8, "seed": 3, "window_batches": 2} | settings
    dataset = training_batches(rows, **settings).take(count)
    return list(dataset.as_numpy_iterator())


def labels(batches):
    return np.concatenate([batch["labels"] for batch in batches]).tolist()


def assert_same(batch, other):
    assert batch.keys() == other.keys()
    for name, values in batch.items():
        np.testing.assert_array_equal(values, other[name])
        assert values.dtype == other[name].dtype


# Fewer examples than a batch, a divisor, windows that end in every way.
@pytest.mark.parametrize("examples", [1, 3, 8, 32, 50, 103])
def test_an_epoch_has_every_example_once(examples):
    batches = read(make_rows(examples), 30)
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


@pytest.mark.parametrize("sequences_per_example", [1, 4])
@pytest.mark.parametrize("fixed_length", [None, 48])
def test_batches_are_those_of_the_rows(sequences_per_example, fixed_length):
    rows = make_rows(29, sequences_per_example)
    for batch in read(rows, 9, fixed_length=fixed_length):
        assert_same(batch, rows.pad(batch["labels"], length=fixed_length))


@pytest.mark.parametrize("examples", [3, 50])
@pytest.mark.parametrize("start", [1, 7, 13, 29])
def test_a_resumed_run_reads_what_it_would_have(examples, start):
    rows = make_rows(examples)
    whole = read(rows, 32)
    for batch, other in zip(
        read(rows, 3, start_step=start), whole[start : start + 3], strict=True
    ):
        assert_same(batch, other)


def test_only_the_seed_decides_the_order():
    rows = make_rows(50)
    order = labels(read(rows, 8))
    tf.random.set_seed(5)
    assert labels(read(rows, 8)) == order
    assert labels(read(rows, 8, seed=4)) != order
    # Nor does the length, so that a TPU reads the same batches.
    assert labels(read(rows, 8, fixed_length=64)) == order


def test_shuffling_is_global():
    # A batch of 8 out of 4000 in order would span 8.
    rows = make_rows(4000)
    [first] = read(rows, 1, window_batches=1)
    assert np.ptp(first["labels"]) > 1000


def test_batches_of_windows_have_like_lengths_in_random_order():
    rows = make_rows(800)
    batches = read(rows, 100, window_batches=50)
    lengths = [batch["input_mask"].sum(axis=1) for batch in batches]
    padding = 1 - np.concatenate(lengths).sum() / sum(
        batch["input_mask"].size for batch in batches
    )
    assert padding < 0.03
    unsorted = read(rows, 100, window_batches=1)
    assert np.mean([1 - b["input_mask"].mean() for b in unsorted]) > 0.3
    means = [x.mean() for x in lengths[:50]]
    assert abs(np.corrcoef(means, range(50))[0, 1]) < 0.5
    # Every window has batches of all lengths.
    assert min(means) < 10
    assert max(means) > 35


def test_shapes_are_as_static_as_can_be():
    settings = {"batch_size": 4, "seed": 0}
    dataset = training_batches(make_rows(9, 2), **settings)
    assert static_batch_size(dataset) == 4
    spec = {name: x.shape for name, x in dataset.element_spec.items()}
    assert spec["scores"] == [4, 2]
    assert spec["token_labels"].as_list() == [4, 2, None]
    fixed = training_batches(make_rows(9), fixed_length=40, **settings)
    for name in (
        "input_word_ids",
        "input_mask",
        "input_type_ids",
        "token_labels",
    ):
        assert fixed.element_spec[name] == tf.TensorSpec([4, 40], tf.int32)
    assert fixed.element_spec["scores"].dtype == tf.float32


def test_another_host_can_read_them():
    dataset = training_batches(make_rows(20), batch_size=4, seed=0)
    # A shorter name than the dataset's own, so it is made again from its graph.
    [copy] = replicate(dataset, ["/device:CPU:0"]).values()
    for batch, other in zip(dataset.take(6), copy.take(6), strict=True):
        assert_same(
            {name: x.numpy() for name, x in batch.items()},
            {name: x.numpy() for name, x in other.items()},
        )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": 0}, "batch_size=0 must be at least 1"),
        ({"start_step": -1}, "start_step=-1 must be at least 0"),
        ({"window_batches": 0}, "window_batches=0 must be at least 1"),
        ({"fixed_length": 4}, "fixed_length=4: a sequence has .* tokens"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(InputError, match=message):
        read(make_rows(9), 1, **settings)


def test_no_example_is_refused():
    with pytest.raises(InputError, match="no example"):
        read(make_rows(0), 1)


@pytest.mark.parametrize("sequences_per_example", [1, 3])
@pytest.mark.parametrize("fixed_length", [None, 40])
def test_predictions_come_back_in_order(sequences_per_example, fixed_length):
    rows = make_rows(21, sequences_per_example)
    outputs = np.full(21, -1)
    longest, sizes = [], []
    for indices, batch in prediction_batches(
        rows, batch_size=4, fixed_length=fixed_length
    ):
        assert_same(batch, rows.pad(indices, length=fixed_length))
        outputs[indices] = batch["labels"]
        longest.append(rows.example_lengths[indices].max())
        sizes.append(len(indices))
    assert outputs.tolist() == list(range(21))
    assert longest == sorted(longest, reverse=True)
    assert sizes == [4] * 5 + [1]
    assert list(prediction_batches(make_rows(0), batch_size=4)) == []
    with pytest.raises(InputError, match="fixed_length=4: a sequence has"):
        next(prediction_batches(rows, batch_size=4, fixed_length=4))
