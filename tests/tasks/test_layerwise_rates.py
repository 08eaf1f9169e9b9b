import pytest

from albert_tf.config import AlbertConfig
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.tasks.layerwise_rates import layerwise_rates

SMALL = AlbertConfig(
    vocab_size=20,
    embedding_size=4,
    hidden_size=8,
    num_hidden_layers=4,
    num_attention_heads=2,
    intermediate_size=8,
    max_position_embeddings=8,
)
HEADS = {
    "encoder/pooler/kernel": 1,
    "mlm_head/dense/kernel": 1,
    "mlm_head/output_bias": 1,
    "sop_head/bias": 1,
}


def scope(outer, half="attention/query", inner=0):
    return f"encoder/transformer/{outer}/inner_{inner}/{half}/kernel"


FFN = "feed_forward/output"


@pytest.mark.parametrize(
    ("changes", "embeddings", "stack"),
    [
        ({}, 1 / 4, {scope("group_0"): 1 / 2, scope("group_0", FFN): 1 / 2}),
        (
            {"num_hidden_groups": 2, "inner_group_num": 2},
            1 / 8,
            {
                scope("group_0"): 1 / 4,
                scope("group_0", FFN, inner=1): 1 / 4,
                scope("group_1", inner=1): 1 / 2,
            },
        ),
        (
            {"sharing": "none"},
            1 / 32,
            {scope("layer_0"): 1 / 16, scope("layer_3", FFN): 1 / 2},
        ),
        (
            {"sharing": "attention", "num_hidden_groups": 2},
            1 / 32,
            {
                scope("group_0"): 1 / 8,
                scope("layer_0", FFN): 1 / 16,
                scope("layer_1", FFN): 1 / 8,
                scope("group_1"): 1 / 2,
                scope("layer_3", FFN): 1 / 2,
            },
        ),
    ],
)
def test_rates_halve_from_level_to_level(changes, embeddings, stack):
    config = SMALL.replace(**changes)
    names = [v.path for v in AlbertPretrainer(config).trainable_variables]
    found = layerwise_rates(config, names, 0.5)
    assert list(found) == names
    expected = {
        "encoder/embeddings/word_embeddings": embeddings,
        "encoder/embeddings/layer_norm/gamma": embeddings,
        "encoder/embedding_projection/kernel": embeddings,
        **stack,
        **HEADS,
    }
    assert {name: found[name] for name in expected} == expected
    lowest_of_stack = 2 * embeddings
    assert min(
        rate for name, rate in found.items() if "/transformer/" in name
    ) == pytest.approx(lowest_of_stack)
