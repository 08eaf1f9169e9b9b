import dataclasses
import re

import pytest

from albert_tf.data.data_config import PretrainingDataConfig
from albert_tf.errors import InputError


@pytest.fixture
def config(small_tokenizer):
    return PretrainingDataConfig(
        input="*.txt", output="data", tokenizer=small_tokenizer
    )


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"max_predictions_per_seq": 512}, "below max_seq_length=512"),
        ({"short_seq_prob": float("nan")}, "finite and in [0, 1]"),
        ({"heldout_fraction": 1.0}, "in [0, 1)"),
        ({"text_field": "a"}, "text unless text_format=jsonl or the input is"),
        ({"one_sentence_chunks": "random_next"}, "drop unless masking=static"),
        ({"pack": True, "masking": "static"}, "False with masking=static"),
        (
            {"pack": True, "sentence_order": "none"},
            "False with sentence_order=none",
        ),
        ({"max_sequences_per_row": 9, "pack": False}, "8 unless pack=True"),
    ],
)
def test_invalid_values(config, settings, rule):
    name = next(iter(settings))
    rule = re.escape(rule)
    with pytest.raises(InputError, match=f"{name}=.* must be {rule}"):
        dataclasses.replace(config, **settings)


def test_only_static_masking_has_several_passes(config):
    static = dataclasses.replace(config, masking="static", pack=None)
    assert static.passes("train") == 10
    assert static.passes("heldout") == config.passes("train") == 1


@pytest.mark.parametrize(
    ("settings", "pack", "predictions"),
    [
        ({}, True, 77),
        ({"max_seq_length": 128}, True, 20),
        ({"max_seq_length": 20}, True, 3),
        ({"max_seq_length": 5, "masked_lm_prob": 1.0}, True, 4),
        ({"masked_lm_prob": 0.0, "pack": False}, False, 1),
        ({"sentence_order": "nsp", "max_predictions_per_seq": 9}, True, 9),
        ({"sentence_order": "none"}, False, 77),
        ({"masking": "static"}, False, 20),  # as in the original
    ],
)
def test_defaults_that_depend_on_other_settings(
    small_tokenizer, settings, pack, predictions
):
    config = PretrainingDataConfig(
        input="*.txt", output="data", tokenizer=small_tokenizer, **settings
    )
    assert config.pack is pack
    assert config.max_predictions_per_seq == predictions
    recorded = config.settings()
    assert recorded["max_predictions_per_seq"] == predictions
    assert recorded.get("pack", False) is pack


def test_settings_are_those_that_the_records_depend_on(config):
    settings = config.settings()
    assert settings["sentence_order"] == "sop"
    others = dataclasses.replace(
        config, num_workers=7, overwrite=True, output="elsewhere"
    )
    assert others.settings() == settings
