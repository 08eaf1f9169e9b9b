import keras
import pytest

from albert_tf.analysis.parameters import (
    BERT,
    count_parameters,
    parameter_table,
    plot_parameters,
)
from albert_tf.config import AlbertConfig
from albert_tf.models.pretrainer import AlbertPretrainer

# Encoder with pooler, and with both pretraining heads.
OFFICIAL = {
    "albert_base_v1": (11_683_584, 11_813_810),
    "albert_base_v2": (11_683_584, 11_813_810),
    "albert_large_v2": (17_683_968, 17_847_474),
    "albert_xlarge_v2": (58_724_864, 59_021_490),
    "albert_xxlarge_v2": (222_595_584, 223_158_450),
    "albert_base_zh": (10_547_968, 10_669_322),
    "albert_large_zh": (16_548_352, 16_702_986),
    "albert_xlarge_zh": (57_589_248, 57_877_002),
    "albert_xxlarge_zh": (221_459_968, 222_013_962),
}


def test_official_counts_to_the_unit():
    for name, expected in OFFICIAL.items():
        counts = count_parameters(AlbertConfig.from_official(name))
        assert (counts.encoder, counts.total) == expected
    # The released uncased models, from a framework's count of their variables.
    assert count_parameters(BERT["bert_base"]).encoder == 109_482_240
    assert count_parameters(BERT["bert_large"]).encoder == 335_141_888


def test_the_table_has_totals_of_the_papers_models_only():
    base = AlbertConfig.from_official("albert_base_v2")
    table = parameter_table({"albert_base_v2": base, "mine": base, **BERT})
    header, official, mine, bert, _ = table.splitlines()
    assert official.endswith(" 12 M")
    assert mine.endswith("1,538")
    assert bert.endswith("108 M")
    assert [int(x.replace(",", "")) for x in mine.split()[1:6]] == [
        3_906_048,
        99_072,
        2_363_904,
        4_723_968,
        590_592,
    ]
    wider = base.replace(embedding_size=768)
    assert not parameter_table({"albert_base_v2": wider}).endswith("M")


def test_chart(tmp_path):
    pytest.importorskip("matplotlib", reason="pip install .[plots]")
    plot_parameters(BERT, tmp_path / "chart.svg")
    assert "bert_large" in (tmp_path / "chart.svg").read_text()


def built_parameters(config: AlbertConfig) -> tuple[int, int]:
    # Inside the scope variables have shapes but no values, so xxlarge is free.
    with keras.StatelessScope(initialize_variables=False):
        model = AlbertPretrainer(config)

        def size(part):
            total = 0
            for variable in part.trainable_variables:
                count = 1
                for dimension in variable.shape:
                    count *= dimension
                total += count
            return total

        return size(model.encoder), size(model)


@pytest.mark.parametrize("name", AlbertConfig.official_names())
def test_formula_equals_the_built_model(name):
    config = AlbertConfig.from_official(name)
    counts = count_parameters(config)
    assert built_parameters(config) == (counts.encoder, counts.total)


# Tables 3 and 4 of the paper, in millions, as the formula has them.
TABLES = [
    ("all", 64, 9.68),
    ("all", 128, 11.68),
    ("all", 256, 15.69),
    ("all", 768, 31.1),
    ("none", 64, 87.6),
    ("none", 128, 89.65),
    ("none", 256, 93.65),
    ("none", 768, 109.1),
    ("attention", 128, 63.6),
    ("attention", 768, 83.1),
    ("ffn", 128, 37.7),
    ("ffn", 768, 57.1),
]


@pytest.mark.parametrize(("sharing", "embedding_size", "millions"), TABLES)
def test_the_papers_sharing_tables(sharing, embedding_size, millions):
    config = AlbertConfig.from_official(
        "albert_base_v2", sharing=sharing, embedding_size=embedding_size
    )
    encoder, total = built_parameters(config)
    assert encoder / 1e6 == pytest.approx(millions, abs=0.06)
    counts = count_parameters(config)
    assert (encoder, total) == (counts.encoder, counts.total)


def test_a_projection_of_equal_sizes(config):
    config = config.replace(embedding_size=16)
    plain = count_parameters(config)
    config = config.replace(project_equal_sizes=True)
    counts = count_parameters(config)
    assert counts.encoder - plain.encoder == 16 * 16 + 16
    assert built_parameters(config) == (counts.encoder, counts.total)


@pytest.mark.parametrize("sharing", ["all", "attention", "ffn", "none"])
def test_groups_and_inner_groups(config, sharing):
    config = config.replace(
        num_hidden_layers=6,
        num_hidden_groups=3,
        inner_group_num=2,
        sharing=sharing,
    )
    counts = count_parameters(config)
    assert built_parameters(config) == (counts.encoder, counts.total)
