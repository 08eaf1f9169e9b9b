"""Training on packed records."""

import collections
import json

import numpy as np
import pytest

from albert_tf.data.manifest import read_manifest
from albert_tf.data.records import pretraining_dataset
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.pretraining.evaluate import evaluate_pretraining
from albert_tf.pretraining.train import pretrain
from albert_tf.training.logging import read_metrics


@pytest.fixture(scope="module")
def packed(make_records):
    return make_records(
        masking="dynamic",
        dupe_factor=10,
        pack=True,
        max_seq_length=64,
        max_predictions_per_seq=10,
    )


@pytest.mark.long
def test_from_text_to_batches(packed):
    manifest = read_manifest(packed)
    settings, splits = manifest["settings"], manifest["splits"]
    assert (settings["pack"], settings["max_sequences_per_row"]) == (True, 8)
    train = splits["train"]
    assert train["padding_fraction"] < 0.1
    assert train["kept_fraction"] > 0.99
    counts = train["counts"]
    assert counts["sequences"] > 1.2 * counts["instances"]
    # Held-out records are Google's, one sequence each.
    assert "sequences" not in splits["heldout"]["counts"]
    dataset = pretraining_dataset(packed, global_batch_size=8, training=False)
    assert {
        name: tuple(spec.shape)
        for name, spec in dataset.element_spec.items()
        if "sequence" in name or "order" in name
    } == {
        "sequence_ids": (None, 64),
        "sequence_starts": (None, 8),
        "sentence_order_labels": (None, 8),
        "sentence_order_weights": (None, 8),
    }
    sums = collections.Counter()
    for batch in dataset.as_numpy_iterator():
        sums.update({name: values.sum() for name, values in batch.items()})
    assert sums["sentence_order_weights"] == counts["pairs"]
    assert 0.2 * counts["sequences"] < counts["pairs"] < counts["sequences"]
    assert sums["input_mask"] == counts["input_tokens"]
    assert sums["masked_lm_weights"] == pytest.approx(
        counts["predictions"], rel=0.02
    )


@pytest.fixture(scope="module")
def trained(packed, tmp_path_factory, pretrain_config, eagerly):
    """Packed records, and a run in micro-batches on them."""
    folder = tmp_path_factory.mktemp("packed") / "run"
    with eagerly():
        pretrain(pretrain_config(packed, folder, 6, **TRAINING))
    return packed, folder


TRAINING = {
    "gradient_accumulation_steps": 2,
    "save_checkpoints_steps": 3,
    "log_steps": 3,
    "num_warmup_steps": 1,
}


def assert_same_weights(run, other, **tolerance):
    values, expected = (open_checkpoint(path).arrays for path in (run, other))
    assert values.keys() == expected.keys()
    for path, value in values.items():
        np.testing.assert_allclose(
            value, expected[path], err_msg=path, **tolerance
        )


@pytest.mark.long
def test_training_resumes_bit_for_bit(
    trained, rewound, pretrain_config, eagerly
):
    records, run = trained
    folder = rewound(run, 5)
    with eagerly():
        result = pretrain(pretrain_config(records, folder, 6, **TRAINING))
    assert result.steps == 6
    assert_same_weights(folder, run, rtol=0)


@pytest.mark.slow
def test_replicas_train_as_micro_batches(trained, tmp_path, pretrain_config):
    """The replicas have different numbers of sequences."""
    records, run = trained
    settings = TRAINING | {"gradient_accumulation_steps": 1}
    folder = tmp_path / "run"
    pretrain(
        pretrain_config(records, folder, 6, distribution="mirrored", **settings)
    )
    # Sums over replicas in another order; AdamW's first steps divide small
    # gradients by their own size.
    assert_same_weights(folder, run, rtol=0, atol=2e-5)


@pytest.mark.long
def test_runs_are_evaluated_on_both_splits(trained, eagerly):
    records, run = trained
    config = json.loads((run / "config.json").read_text())
    assert config.get("trained_positions", 64) == 64  # all
    lines = read_metrics(run)
    train, heldout = (
        [line["values"] for line in lines if line["split"] == split][-1]
        for split in ("train", "eval")
    )
    for values in (train, heldout):
        assert values["sop_loss"] == pytest.approx(np.log(2), rel=0.3)
        # In training, steps have different numbers of pairs.
        assert values["loss"] == pytest.approx(
            values["mlm_loss"] + values["sop_loss"], rel=0.03
        )
    with eagerly():
        scores = evaluate_pretraining(
            run, str(records), split="train", max_steps=2
        )
    assert scores["sop_loss"] == pytest.approx(np.log(2), rel=0.3)
    assert scores["sop_chance"] == 0.5
