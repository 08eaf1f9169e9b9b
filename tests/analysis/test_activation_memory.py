import pathlib
import re

import pytest

from albert_tf.analysis.activation_memory import training_memory
from albert_tf.analysis.parameters import count_parameters
from albert_tf.config import AlbertConfig

DOCUMENT = (
    pathlib.Path(__file__).parents[2].joinpath("docs", "memory.md").read_text()
)
BASE = AlbertConfig.from_official("albert_base_v2")
SIZES = {"batch_size": 8, "seq_length": 512, "predictions": 77}


def memory(config=BASE, **changes):
    return training_memory(config, **SIZES | changes)


def test_weights_gradients_and_slots():
    parameters = 4 * count_parameters(BASE).total
    found = memory()
    assert found.weights == found.gradients == parameters
    assert found.slots == 2 * parameters
    assert memory(accumulation=2).gradients == 2 * parameters


def test_a_block_by_hand():
    """Without dropout, in float32, the tensors that TensorFlow keeps."""
    tokens, h, i, heads = 8 * 512, 768, 3072, 12
    floats = (
        # Inputs of both halves and of two LayerNorms; query, key, value and
        # context.
        tokens * h * (2 + 2 + 3 + 1)
        + 8 * heads * 512 * 512  # softmax
        # GELU's input and result.
        + tokens * i * 2
    )
    assert memory().blocks == 12 * 4 * floats
    assert memory(rematerialize=True).recomputed == 4 * floats
    assert memory(rematerialize=True).blocks == 12 * 4 * tokens * h


def test_logits():
    head = memory().mlm_head
    assert 0 < head - 4 * 8 * 77 * 30000 < 0.1 * head


def test_options_that_save_memory():
    plain = memory()
    assert memory(rematerialize=True).activations < 0.3 * plain.activations
    assert memory(accumulation=8).activations == pytest.approx(
        plain.activations / 8
    )
    mixed = memory(precision="mixed_bfloat16")
    # Softmax stays in float32, and has a copy in half precision.
    assert 0.5 < mixed.blocks / plain.blocks < 0.85
    dropout = BASE.replace(
        hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1
    )
    assert memory(dropout).blocks > plain.blocks
    relu = BASE.replace(hidden_act="relu")
    assert memory(relu).blocks < plain.blocks


def test_sharing_affects_weights_only():
    own = memory(BASE.replace(sharing="none"))
    assert own.activations == memory().activations
    assert own.weights > 5 * memory().weights


def test_documented_numbers():
    rows = re.findall(
        r"^\| (albert_\w+) \| (\d+) x (\d+) \| (no|yes) \| .* \| ([\d,]+) \| "
        r"([\d,]+) \| ([\d.]+) \|",
        DOCUMENT,
        re.MULTILINE,
    )
    assert rows
    for name, batch, length, remat, measured, formula, ratio in rows:
        found = training_memory(
            AlbertConfig.from_official(name),
            batch_size=int(batch),
            seq_length=int(length),
            predictions=round(0.15 * int(length)),
            rematerialize=remat == "yes",
        )
        assert formula == f"{found.step / 2**20:,.0f}"
        quotient = number(measured) / number(formula)
        assert float(ratio) == pytest.approx(quotient, abs=0.01)
        # The accuracy of the formula, except where the documentation explains
        # why it is too low.
        if remat == "no" and name != "albert_xxlarge_v2":
            assert 0.8 < float(ratio) < 1.3


def number(text):
    return float(text.replace(",", ""))
