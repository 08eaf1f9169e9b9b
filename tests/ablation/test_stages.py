"""Steps, computation and identity of the runs of the paper's studies."""

import itertools

import pytest

from albert_tf.ablation.config import SCALES
from albert_tf.ablation.stages import (
    Run,
    check_stages,
    stages_of,
    training_flops,
)
from albert_tf.ablation.studies import STUDIES
from albert_tf.ablation.study import StudyRow
from albert_tf.errors import InputError

SCALE = SCALES["minutes"]


def stages(study, row, seed=0):
    (found,) = (x for x in STUDIES[study].rows if x.name == row)
    return stages_of(Run(STUDIES[study], found, seed), SCALE)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", STUDIES)
def test_rows_have_equal_steps_or_equal_computation(name, scale):
    study, scale = STUDIES[name], SCALES[scale]
    steps, flops = [], []
    for row in study.rows:
        found = stages_of(Run(study, row, 0), scale)
        steps.append(sum(stage.steps for stage in found))
        flops.append(training_flops(found, row, scale))
    if study.equal_compute:
        # Up to half a step of rounding.
        half = max(x / y for x, y in zip(flops, steps, strict=True)) / 2
        assert max(flops) - min(flops) <= 2 * half
        assert len({*steps}) > 1
    else:
        assert {*steps} == {scale.num_train_steps}


def test_growing():
    grown = stages("depth", "6 layers")
    assert [x.model.num_hidden_layers for x in grown] == [1, 3, 6]
    assert [x.before for x in grown] == [None, grown[0].name, grown[1].name]
    # Stages that rows have in common are trained once.
    other = stages("depth", "3 layers")
    assert other[:2] == grown[:2]
    single = stages("depth", "1 layer")
    assert single[0] == grown[0]
    assert {x.model.num_hidden_layers for x in single} == {1}
    assert len({x.name for x in [*grown, *other, *single]}) == 6


def test_values_of_a_stage_replace_factors_of_the_row():
    row = StudyRow(
        "",
        values={"num_attention_heads": 1},
        factors={"num_hidden_layers": 2, "hidden_size": 2},
        grown_from=({"num_hidden_layers": 1},),
    )
    before, own = row.stages(SCALE.base)
    layers = SCALE.base.num_hidden_layers
    assert (before.num_hidden_layers, own.num_hidden_layers) == (1, 2 * layers)
    assert {before.hidden_size, own.hidden_size} == {2 * SCALE.base.hidden_size}
    assert {before.num_attention_heads, own.num_attention_heads} == {1}
    twice = {"hidden_size": 2}
    with pytest.raises(InputError, match="hidden_size is in both values and f"):
        StudyRow("", values=twice, factors=twice)


def test_equal_models_are_one_run():
    def name(study, row):
        return stages(study, row)[-1].name

    assert name("groups", "1 group") == name("sharing", "all")
    assert name("groups", "1 group") == name("sentence_order", "SOP")
    assert name("wall_time", "ALBERT, twice as wide") == name("sharing", "all")
    # The base model of this scale has two layers.
    assert name("groups", "2 groups") == name("sharing", "none")
    assert name("sharing", "none") == name(
        "embedding_size", "not shared, E = H/2"
    )
    names = [
        stage.name
        for row in STUDIES["sharing"].rows
        for stage in stages("sharing", row.name)
    ]
    assert len({*names}) == 4


@pytest.mark.parametrize("sharing", ["all", "attention", "ffn", "none"])
def test_groups_of_one_layer_share_nothing(sharing):
    base = SCALES["days"].base
    groups = StudyRow("", values={"num_hidden_groups": 4, "sharing": sharing})
    nothing = StudyRow("", values={"sharing": "none"})
    assert groups.stages(base) == nothing.stages(base)
    one_layer = {"num_hidden_layers": 1}
    row = StudyRow("", values={**one_layer, "sharing": sharing})
    assert row.stages(base) == StudyRow("", values=one_layer).stages(base)


def test_seeds_and_objectives_are_different_runs():
    rows = STUDIES["sentence_order"].rows
    names = [
        stages("sentence_order", row.name, seed)[-1].name
        for row, seed in itertools.product(rows, range(2))
    ]
    assert len({*names}) == 6


@pytest.mark.parametrize(
    ("row", "match"),
    [
        ({"grown_from": ({"num_attention_heads": 7},)}, "num_attention_heads"),
        ({"grown_from": ({"embedding_size": 7},)}, "has embedding_size=7, not"),
        ({"values": {"vocab_size": 20}}, "'x': vocab_size=20 must be 440, as"),
        ({"factors": {"vocab_size": 2}}, "vocab_size=880 must be 440, as in t"),
        ({"values": {"max_position_embeddings": 8}}, "as in the records"),
        ({"values": {"trained_positions": 8}}, "trained_positions=8 is a resu"),
    ],
)
def test_invalid_stages(row, match):
    with pytest.raises(InputError, match=match):
        check_stages(StudyRow("x", **row), SCALE)


@pytest.mark.parametrize("name", STUDIES)
def test_stages_of_the_paper_are_valid(name):
    for row in STUDIES[name].rows:
        check_stages(row, SCALE)
