"""Replicas and micro-batches do not change the weights of complete runs.

test_trainer.py has the same with a toy model.
"""

import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.pretraining.config import PretrainConfig
from albert_tf.pretraining.train import pretrain
from albert_tf.training.checkpoint_files import read_checkpoint
from albert_tf.training.logging import read_metrics

pytestmark = pytest.mark.long

MODEL = AlbertConfig(
    vocab_size=600,
    embedding_size=16,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    max_position_embeddings=64,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    initializer_range=0.1,
)
STEPS = 20

# Slices are summed in another order, which costs float32 an ulp of a gradient;
# 20 updates of at most 2e-3 of a weight's norm carry a few of them over.
TOLERANCE = 1e-6


@pytest.fixture(scope="module")
def trained(records, tmp_path_factory):
    """Returns `run(distribution, accumulation, dropout)`: values and metrics.

    Every run goes through the entry point of `albert pretrain`, with LAMB, its
    exclusions, and a clipping norm that all gradients exceed.
    """
    runs = {}

    def run(distribution, accumulation, dropout=0.0):
        key = (distribution, accumulation, dropout)
        if key not in runs:
            folder = tmp_path_factory.mktemp("runs") / "run"
            pretrain(
                PretrainConfig(
                    input=str(records),
                    output=folder,
                    model=MODEL.replace(
                        hidden_dropout_prob=dropout,
                        attention_probs_dropout_prob=dropout,
                    ),
                    num_train_steps=STEPS,
                    log_steps=5,
                    clip_norm=0.5,
                    gradient_accumulation_steps=accumulation,
                    seed=3,
                    train_batch_size=16,
                    optimizer="lamb",
                    learning_rate=2e-3,
                    num_warmup_steps=3,
                    eval_batch_size=10,
                    max_eval_steps=4,
                    distribution=distribution,
                )
            )
            prefix = folder / "checkpoints" / f"step-{STEPS:08d}"
            runs[key] = read_checkpoint(prefix), read_metrics(folder)
        return runs[key]

    return run


def assert_same_weights(run, other):
    values, expected = run[0], other[0]
    assert values.keys() == expected.keys()
    for name, value in values.items():
        np.testing.assert_allclose(
            value, expected[name], rtol=0, atol=TOLERANCE, err_msg=name
        )


@pytest.mark.parametrize(
    ("distribution", "accumulation"),
    [
        pytest.param("mirrored", 2, marks=pytest.mark.slow),
        pytest.param("one_device", 4, marks=pytest.mark.slow),
        pytest.param("mirrored", 1, marks=pytest.mark.slow),
    ],
)
def test_same_weights_without_dropout(trained, distribution, accumulation):
    reference = trained("one_device", 1)
    run = trained(distribution, accumulation)
    assert_same_weights(run, reference)
    for line, expected in zip(run[1], reference[1], strict=True):
        assert line["split"] == expected["split"]
        for name in ("loss", "mlm_loss", "sop_loss", "mlm_accuracy"):
            # Held-out batches of 10, the last one smaller: the replicas' parts
            # are of different sizes, and the means are those of all examples.
            assert line["values"][name] == pytest.approx(
                expected["values"][name], rel=1e-5
            )


def test_clipping_was_active_and_the_loss_falls(trained):
    _, lines = trained("one_device", 1)
    values = [line["values"] for line in lines if line["split"] == "train"]
    assert len(values) == STEPS // 5
    assert min(x["gradient_norm"] for x in values) > 1.0  # clip_norm is 0.5
    assert values[-1]["loss"] < values[0]["loss"] - 0.02


@pytest.mark.slow
def test_replicas_and_micro_batches_have_the_same_dropout(trained):
    split = trained("mirrored", 1, dropout=0.1)
    assert_same_weights(split, trained("one_device", 2, dropout=0.1))
    values, _ = trained("one_device", 1)  # without dropout
    name = "model/mlm_head/dense/kernel"
    assert np.abs(split[0][name] - values[name]).max() > 100 * TOLERANCE
