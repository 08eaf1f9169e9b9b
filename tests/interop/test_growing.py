import re

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.interop.growing import grow
from albert_tf.models.encoder import AlbertEncoder

INPUTS = {
    "input_word_ids": np.array([[2, 7, 9, 3, 11, 3], [2, 5, 3, 0, 0, 0]]),
    "input_mask": np.array([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]]),
    "input_type_ids": np.array([[0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 0]]),
}


@pytest.fixture(scope="module")
def one(config):
    """Two layers that share one set of weights."""
    return config.replace(
        num_hidden_layers=2, num_hidden_groups=1, inner_group_num=1
    )


def states(checkpoint):
    model = AlbertEncoder.from_checkpoint(checkpoint)
    return [np.asarray(x) for x in model(INPUTS)["encoder_outputs"]]


def origins(checkpoint, grown):
    """Path in the grown stack -> the path of the array that it is a copy of."""
    whose = {checkpoint.arrays[p].tobytes(): p for p in checkpoint.arrays}
    assert len(whose) == len(checkpoint.arrays)
    found = {p: whose[grown.arrays[p].tobytes()] for p in grown.arrays}
    return {
        path.removeprefix("encoder/transformer/"): origin.removeprefix(
            "encoder/transformer/"
        )
        for path, origin in found.items()
        if path.endswith(("query/kernel", "intermediate/kernel"))
    }


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"num_hidden_groups": 2}),
        ({"inner_group_num": 2}, {"num_hidden_groups": 2}),
        (
            {"num_hidden_layers": 4, "num_hidden_groups": 2},
            {"num_hidden_groups": 4},
        ),
        ({}, {"sharing": "none"}),
        ({}, {"sharing": "attention"}),
        ({}, {"sharing": "ffn"}),
        ({"embedding_size": 8}, {"sharing": "ffn"}),
        (
            {"embedding_size": 8, "project_equal_sizes": True},
            {"sharing": "ffn"},
        ),
        ({"sharing": "ffn"}, {"sharing": "none"}),
        ({"num_hidden_layers": 4, "num_hidden_groups": 2}, {"sharing": "none"}),
        # The same number of blocks, in pairs with a set of weights each.
        (
            {"num_hidden_layers": 4},
            {"num_hidden_layers": 2, "inner_group_num": 2},
        ),
    ],
)
def test_outputs_do_not_change(one, make_checkpoint, before, after):
    checkpoint = make_checkpoint(one.replace(**before), "mlm_head")
    grown = grow(checkpoint, checkpoint.config.replace(**after))
    assert grown.config == one.replace(**before | after)
    assert len(grown.arrays) > len(checkpoint.arrays)
    for ours, theirs in zip(states(grown), states(checkpoint), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("layers", [1, 4, 12])
def test_another_depth_of_shared_layers_keeps_the_weights(
    one, make_checkpoint, assert_equal, layers
):
    checkpoint = make_checkpoint(one, "mlm_head", "sop_head")
    deep = one.replace(num_hidden_layers=layers, hidden_dropout_prob=0.1)
    grown = grow(checkpoint, deep)
    assert grown.config == deep
    assert_equal(grown, checkpoint)
    # The first layers compute the same, and further ones follow.
    found = states(grown)
    for ours, theirs in zip(found, states(checkpoint), strict=False):
        np.testing.assert_array_equal(ours, theirs)
    assert len(found) == layers


def test_unshared_layers_are_doubled_in_place(one, make_checkpoint):
    checkpoint = make_checkpoint(
        one.replace(num_hidden_layers=3, sharing="attention")
    )
    grown = grow(checkpoint, checkpoint.config.replace(num_hidden_layers=6))
    assert origins(checkpoint, grown) == {
        "group_0/inner_0/attention/query/kernel": (
            "group_0/inner_0/attention/query/kernel"
        ),
        **{
            f"layer_{new}/inner_0/feed_forward/intermediate/kernel": (
                f"layer_{old}/inner_0/feed_forward/intermediate/kernel"
            )
            for new, old in enumerate([0, 0, 1, 1, 2, 2])
        },
    }


def test_groups_keep_their_relative_depth(one, make_checkpoint):
    checkpoint = make_checkpoint(
        one.replace(num_hidden_layers=4, num_hidden_groups=2, inner_group_num=2)
    )
    config = checkpoint.config.replace(
        num_hidden_layers=12, num_hidden_groups=6
    )
    found = origins(checkpoint, grow(checkpoint, config))
    for new, old in enumerate([0, 0, 0, 1, 1, 1]):
        for rest in (
            "inner_0/attention/query/kernel",
            "inner_1/feed_forward/intermediate/kernel",
        ):
            assert found[f"group_{new}/{rest}"] == f"group_{old}/{rest}"


def test_notes_list_the_copies(one, make_checkpoint):
    checkpoint = make_checkpoint(one, notes=("before",))
    grown = grow(checkpoint, one.replace(num_hidden_groups=2))
    assert grown.notes == (
        "before",
        "grown: num_hidden_groups 1 -> 2",
        "group_0/inner_0/attention, group_1/inner_0/attention: from "
        "group_0/inner_0/attention",
        "group_0/inner_0/feed_forward, group_1/inner_0/feed_forward: from "
        "group_0/inner_0/feed_forward",
    )
    deeper = grow(checkpoint, one.replace(num_hidden_layers=4))
    assert deeper.notes == ("before", "grown: num_hidden_layers 2 -> 4")
    equal = grow(checkpoint, one.replace(initializer_range=0.1))
    assert equal.notes == ("before",)


@pytest.mark.parametrize(
    ("trained", "layers", "length"),
    [(None, 2, 40), (16, 2, 40), (6, 2, 40), (6, 4, 40), (6, 2, 16)],
)
def test_untrained_positions_are_copies(
    one, make_checkpoint, trained, layers, length
):
    checkpoint = make_checkpoint(one.replace(trained_positions=trained))
    config = one.replace(
        max_position_embeddings=length, num_hidden_layers=layers
    )
    grown = grow(checkpoint, config)
    count = trained or 16
    assert grown.config == config.replace(trained_positions=count)
    assert ("max_position_embeddings 16 -> 40\n" in grown.report()) == (
        length == 40
    )
    assert (
        f"positions: {count} of {length} are trained; the rows from {count} on "
        "are copies of them" in grown.report()
    )
    path = "encoder/embeddings/position_embeddings"
    before, after = checkpoint.arrays[path], grown.arrays[path]
    assert after.shape == (length, one.embedding_size)
    np.testing.assert_array_equal(after, before[np.arange(length) % count])
    for ours, theirs in zip(states(grown), states(checkpoint), strict=False):
        np.testing.assert_array_equal(ours, theirs)
    again = grow(grown, grown.config)
    assert again.report() == grown.report()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("vocab_size", 31),
        ("embedding_size", 8),
        ("hidden_size", 16),
        ("intermediate_size", 16),
        ("num_attention_heads", 4),
        ("max_position_embeddings", 8),
        ("type_vocab_size", 3),
        ("hidden_act", "relu"),
        ("layer_norm_eps", 1e-6),
        ("project_equal_sizes", True),
    ],
)
def test_other_fields_cannot_grow(one, make_checkpoint, field, value):
    checkpoint = make_checkpoint(one, source="there")
    message = f"there has {field}={getattr(one, field)}, not {value}; "
    with pytest.raises(InputError, match=re.escape(message)):
        grow(checkpoint, one.replace(**{field: value}))


@pytest.mark.parametrize(
    ("before", "after", "homeless"),
    [
        ({"num_hidden_groups": 2}, {"num_hidden_groups": 1}, "group_1"),
        ({"sharing": "none"}, {"sharing": "all"}, "layer_1"),
        ({"sharing": "ffn"}, {"num_hidden_layers": 1}, "layer_1"),
        ({"inner_group_num": 2}, {"inner_group_num": 1}, "group_0/inner_1"),
    ],
)
def test_unused_weights_are_an_error(
    one, make_checkpoint, before, after, homeless
):
    checkpoint = make_checkpoint(one.replace(**before))
    message = f"unused tensor encoder/transformer/{homeless}.*cannot shrink"
    with pytest.raises(InputError, match=message):
        grow(checkpoint, checkpoint.config.replace(**after))
