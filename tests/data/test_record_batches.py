import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.records import open_records, pretraining_dataset
from albert_tf.errors import InputError


def batches(*args, count, **kwargs):
    dataset = pretraining_dataset(*args, **kwargs)
    return list(dataset.take(count).as_numpy_iterator())


def rows(found):
    return [row.tobytes() for batch in found for row in batch["input_word_ids"]]


def test_batches_hold_the_records(created, read_records):
    folder, _ = created()
    files = [file.path for file in open_records(folder).files["train"]]
    written = read_records(*files)
    total = len(written["input_ids"])
    found = batches(folder, global_batch_size=100, training=False, count=-1)
    sizes = [len(batch["input_mask"]) for batch in found]
    assert sizes == [100] * (total // 100) + [total % 100]
    names = {
        "input_word_ids": "input_ids",
        "input_mask": "input_mask",
        "input_type_ids": "segment_ids",
        "masked_lm_positions": "masked_lm_positions",
        "masked_lm_ids": "masked_lm_ids",
        "masked_lm_weights": "masked_lm_weights",
        "sentence_order_labels": "next_sentence_labels",
    }
    assert found[0].keys() == {*names, "sentence_order_weights"}
    for batch in found:  # All are pairs.
        assert (batch["sentence_order_weights"] == 1).all()
    for ours, theirs in names.items():
        values = np.concatenate([batch[ours] for batch in found])
        wanted = written[theirs]
        if ours == "sentence_order_labels":
            wanted = wanted[:, 0]
        np.testing.assert_array_equal(values, wanted)
        is_weight = ours == "masked_lm_weights"
        assert values.dtype == (np.float32 if is_weight else np.int32)


@pytest.mark.parametrize("masking", ["static", "dynamic"])
def test_training_shapes_are_static(created, masking):
    folder, _ = created(masking=masking)
    spec = pretraining_dataset(folder, global_batch_size=16).element_spec
    shapes = {name: tuple(tensor.shape) for name, tensor in spec.items()}
    assert shapes == {
        "input_word_ids": (16, 64),
        "input_mask": (16, 64),
        "input_type_ids": (16, 64),
        "masked_lm_positions": (16, 10),
        "masked_lm_ids": (16, 10),
        "masked_lm_weights": (16, 10),
        "sentence_order_labels": (16,),
        "sentence_order_weights": (16,),
    }


def test_an_epoch_has_every_record_once(created, small_groups):
    folder, manifest = created()
    total = manifest["splits"]["train"]["counts"]["instances"]
    assert total % 32  # some batches have records of two epochs
    in_order = rows(
        batches(folder, global_batch_size=64, training=False, count=-1)
    )
    assert len(in_order) == total
    found = rows(
        batches(folder, global_batch_size=32, count=-(-2 * total // 32))
    )
    first, second = found[:total], found[total : 2 * total]
    assert sorted(first) == sorted(second) == sorted(in_order)
    assert first != second
    # Shuffled completely: neighbors in the files are no longer neighbors.
    where = {row: position for position, row in enumerate(in_order)}
    steps = np.diff([where[row] for row in first])
    assert (steps == 1).mean() < 0.05


@pytest.mark.parametrize(
    ("masking", "starts"),
    [
        ("static", (7, 26)),
        ("dynamic", (26,)),
        pytest.param("static", (1, 12, 25, 40), marks=pytest.mark.slow),
        pytest.param("dynamic", (1, 7, 12, 25, 40), marks=pytest.mark.slow),
    ],
)
def test_resuming_continues_as_if_never_stopped(
    created, small_groups, masking, starts
):
    """Within a buffer, at the end of an epoch (25.3 steps) and beyond."""
    folder, manifest = created(masking=masking)
    total = manifest["splits"]["train"]["counts"]["instances"]
    assert total > 150  # more than a buffer
    settings = {"global_batch_size": int(total / 25.3)}
    undisturbed = batches(folder, count=45, seed=5, **settings)
    for start in starts:
        resumed = batches(
            folder, start_step=start, count=45 - start, seed=5, **settings
        )
        np.testing.assert_equal(resumed, undisturbed[start:])
    different = batches(folder, count=1, seed=4, **settings)
    assert rows(different) != rows(undisturbed[:1])


def test_batches_depend_on_seed_and_step_alone(copy_of_created, small_groups):
    folder = copy_of_created()
    settings = {"global_batch_size": 20, "count": 5}
    first = batches(folder, seed=1, **settings)
    tf.random.set_seed(99)  # Global seeds have no influence.
    np.random.seed(99)
    again = batches(folder, seed=1, **settings)
    np.testing.assert_equal(again, first)
    assert rows(batches(folder, seed=2, **settings)) != rows(first)
    # The same files without a manifest, found by a pattern.
    (folder / "manifest.json").unlink()
    by_pattern = batches(f"{folder}/*.tfrecord", seed=1, **settings)
    np.testing.assert_equal(by_pattern, first)


def test_batches_larger_than_an_epoch(created, small_groups):
    folder, manifest = created(dupe_factor=1, sentence_order="none")
    total = manifest["splits"]["train"]["counts"]["instances"]
    [batch] = batches(folder, global_batch_size=2 * total, count=1)
    assert len(set(rows([batch]))) == total


def test_compressed_and_plain_files_mix(created, read_records):
    plain, _ = created()
    packed, _ = created(compress=True)
    found = batches(
        [plain, packed], global_batch_size=50, training=False, count=-1
    )
    alone = batches(plain, global_batch_size=50, training=False, count=-1)
    assert sorted(rows(found)) == sorted(rows(alone) * 2)
    training = pretraining_dataset(packed, global_batch_size=8)
    assert next(iter(training))["input_mask"].shape == (8, 64)


def test_evaluation_can_skip_batches(created):
    folder, _ = created()
    settings = {"global_batch_size": 50, "training": False, "count": -1}
    everything = batches(folder, **settings)
    later = batches(folder, start_step=3, **settings)
    np.testing.assert_equal(later, everything[3:])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"global_batch_size": 0}, "global_batch_size=0 must be at least 1"),
        ({"start_step": -1}, "start_step=-1 must be at least 0"),
        ({"split": "heldout"}, "no split 'heldout'"),
    ],
)
def test_invalid_arguments(created, settings, message):
    folder, _ = created()
    with pytest.raises(InputError, match=message):
        pretraining_dataset(folder, **({"global_batch_size": 8} | settings))


def test_auto_sharding_is_off(created):
    """Sharding by files would give replicas other batches."""
    folder, _ = created()
    dataset = pretraining_dataset(folder, global_batch_size=8)
    policy = dataset.options().experimental_distribute.auto_shard_policy
    assert policy == tf.data.experimental.AutoShardPolicy.OFF
