import dataclasses
import json

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError

BAD_VALUES = [
    ("vocab_size", 0, "in [1, 10000000]"),
    ("vocab_size", 2**63, "an integer of at most 64 bits"),
    ("vocab_size", "30000", "an integer"),
    ("vocab_size", None, "an integer"),
    ("num_hidden_layers", True, "an integer"),
    ("num_hidden_layers", 100_000_000, "in [1, 1024]"),
    ("hidden_size", 770, "a multiple of num_attention_heads=12"),
    ("num_hidden_groups", 5, "a multiple of num_hidden_groups=5"),
    ("hidden_act", "swish", "one of gelu_tanh"),
    ("hidden_act", ["relu"], "one of gelu_tanh"),
    ("sharing", "some", "one of all"),
    ("hidden_dropout_prob", 1.0, "in [0, 1)"),
    ("attention_probs_dropout_prob", float("nan"), "finite and in [0, 1)"),
    ("layer_norm_eps", 0, "in (0, 1]"),
    ("layer_norm_eps", float("inf"), "finite and in (0, 1]"),
    ("layer_norm_eps", 1e-60, "float32 has nothing below 1.2e-38 but 0"),
    ("layer_norm_eps", 10**400, "a number of at most 1.8e+308"),
    ("initializer_range", -0.02, "in (0, 1000]"),
    ("project_equal_sizes", 1, "true or false"),
    ("project_equal_sizes", "true", "true or false"),
    # What would exhaust the machine before any weight is looked at.
    ("vocab_size", 10**30, "an integer of at most 64 bits"),
    ("inner_group_num", 86, "num_hidden_layers=12 must be at most 1024 / inn"),
]


@pytest.mark.parametrize(("field", "value", "rule"), BAD_VALUES)
def test_bad_values_name_field_and_rule(field, value, rule):
    with pytest.raises(InputError) as error:
        AlbertConfig(**{field: value})
    assert rule in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 160
    if field not in ("num_hidden_groups", "inner_group_num"):
        assert str(error.value).startswith(f"{field}=")


def test_config_is_frozen_and_round_trips(tmp_path):
    config = AlbertConfig.from_official("albert_large_v1", sharing="attention")
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.hidden_size = 1
    config.to_json(tmp_path / "config.json")
    assert AlbertConfig.from_json(tmp_path / "config.json") == config
    assert AlbertConfig.from_dict(json.loads(config.to_json())) == config


@pytest.mark.parametrize(
    ("embedding_size", "project_equal_sizes", "expected"),
    [(128, False, True), (128, True, True), (768, False, False)]
    + [(768, True, True)],
)
def test_embedding_projection(embedding_size, project_equal_sizes, expected):
    config = AlbertConfig(
        embedding_size=embedding_size, project_equal_sizes=project_equal_sizes
    )
    assert config.has_embedding_projection is expected


def test_reads_googles_files(shared):
    config = AlbertConfig.from_json(
        shared("golden", "google", "model", "d_relu", "albert_config.json")
    )
    assert (config.hidden_act, config.hidden_size) == ("relu", 32)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"hidden_size": 768}, "'vocab_size' is missing"),
        (
            {"vocab_size": 9, "hidden_size": 12, "hiden_act": "relu"},
            "did you mean 'hidden_act'",
        ),
        (
            {"vocab_size": 9, "hidden_size": 12, "net_structure_type": 1},
            "net_structure_type=1",
        ),
    ],
)
def test_invalid_files(values, message):
    with pytest.raises(InputError, match=message):
        AlbertConfig.from_dict(values, source="my.json")


def test_official_differences():
    v1, v2, zh = (
        AlbertConfig.from_official(f"albert_xlarge_{version}")
        for version in ("v1", "v2", "zh")
    )
    assert (
        v1.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        == v2
    )
    assert v1.hidden_dropout_prob == 0.1
    assert v2.num_attention_heads == 16
    assert (zh.vocab_size, zh.hidden_act, zh.initializer_range) == (
        21128,
        "relu",
        0.014,
    )
    xxlarge = AlbertConfig.from_official("albert_xxlarge_v1")
    assert xxlarge.hidden_dropout_prob == 0.0


def test_trained_positions_are_written_where_they_are_known():
    config = AlbertConfig(max_position_embeddings=64)
    assert "trained_positions" not in config.to_dict()
    assert config.replace(trained_positions=64) == config
    short = config.replace(trained_positions=32)
    assert AlbertConfig.from_dict(short.to_dict()) == short
    for bad in (0, 65, "32", 32.0, True):
        with pytest.raises(InputError, match="trained_positions="):
            config.replace(trained_positions=bad)
