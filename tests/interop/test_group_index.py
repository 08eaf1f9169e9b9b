"""The group of a layer, as computed by three systems."""

from albert_tf.config import AlbertConfig

# All numbers of layers and of groups of equal depth.
SHAPES = [
    (layers, groups)
    for layers in range(1, 65)
    for groups in range(1, layers + 1)
    if layers % groups == 0
]


def ours(layers, groups):
    config = AlbertConfig(num_hidden_layers=layers, num_hidden_groups=groups)
    scopes = config.block_scopes("attention")
    return [int(outer.removeprefix("group_")) for outer, _ in scopes]


def google(layers, groups):
    """google-research/albert, modeling.py, in floating point."""
    return [int(layer / layers * groups) for layer in range(layers)]


def test_google_rounds_some_layers_into_the_group_before():
    wrong = [shape for shape in SHAPES if google(*shape) != ours(*shape)]
    assert len(wrong) == 18
    assert {(22, 22), (23, 23), (26, 26), (44, 22), (52, 26)} <= set(wrong)
    # Layer 15 runs group 14 again, and group 15 is never created.
    assert google(22, 22)[14:17] == [14, 14, 16]
    assert ours(22, 22)[14:17] == [14, 15, 16]


def test_all_agree_on_published_architectures():
    for name in AlbertConfig.official_names():
        config = AlbertConfig.from_official(name)
        shape = config.num_hidden_layers, config.num_hidden_groups
        assert google(*shape) == ours(*shape), name
