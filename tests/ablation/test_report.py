"""Reports and plots of given scores, and the definitions of studies."""

import dataclasses
import json
import pathlib
import re

import pytest
from ablation_results import dropout, losses, make_result

from albert_tf.ablation.config import SCALES
from albert_tf.ablation.plots import plot_study
from albert_tf.ablation.report import Ablation
from albert_tf.ablation.run import find_studies
from albert_tf.ablation.studies import STUDIES
from albert_tf.ablation.study import (
    CHANCE,
    DOWNSTREAM,
    Study,
    StudyClaim,
    StudyRow,
)
from albert_tf.analysis.figures import import_pyplot
from albert_tf.errors import InputError

LOW, HIGH = (2.0, 2.1, 2.2, 2.0, 2.1), (3.0, 3.1, 3.2, 3.0, 3.1)


def test_report(tmp_path):
    result = dropout(HIGH, LOW)
    Ablation("minutes", "A small model.", (result,)).save(tmp_path)
    text = (tmp_path / "report.md").read_text("utf-8")
    assert "## Table 8: Dropout (`dropout`)" in text
    assert "xxlarge, without dropout |          90.7 % |" in text
    assert "2.080 ± 0.084" in text
    assert "1 of 1 findings were reproduced" in text
    assert (tmp_path / "dropout.png").stat().st_size > 5000
    report = json.loads((tmp_path / "report.json").read_text())
    (claim,) = report["studies"][0]["claims"]
    assert claim["outcome"] == "reproduced"
    assert report["studies"][0]["rows"][1]["scores"][0]["mlm_loss"] == 2.0


@pytest.mark.parametrize(
    ("scale", "values"), [("smoke", HIGH), ("minutes", HIGH[:4])]
)
def test_findings_that_are_not_judged_are_not_counted(scale, values):
    text = Ablation(scale, "A small model.", (dropout(values, LOW),)).table()
    assert "**Not judged**" in text
    assert "findings were reproduced" not in text


def test_what_is_judged_is_drawn(monkeypatch, tmp_path):
    figures = []
    monkeypatch.setattr(
        "albert_tf.ablation.plots.save_figure",
        lambda figure, output: figures.append(figure),
    )

    def panels(name, scores):
        study = STUDIES[name]
        plot_study(make_result(study, [scores] * len(study.rows)), tmp_path)
        figure = figures.pop()
        labels = [axis.get_xlabel() for axis in figure.axes]
        import_pyplot().close(figure)
        return labels

    assert panels("dropout", losses(*LOW)) == ["MLM loss", "the paper's, %"]
    scores = [x | {DOWNSTREAM: 0.9} for x in losses(*LOW)]
    assert panels("dropout", scores)[0] == "downstream accuracy, %"
    scores = [x | {"nsp_accuracy": 0.9} for x in scores]
    assert panels("sentence_order", scores)[:3] == [
        "SOP accuracy, %",
        "NSP accuracy, %",
        "downstream accuracy, %",
    ]


@pytest.mark.parametrize("name", STUDIES)
def test_models_are_valid_at_every_scale(name):
    for row in STUDIES[name].rows:
        for scale in SCALES.values():
            assert row.architecture(scale.base).vocab_size == scale.vocab_size


@pytest.mark.parametrize("name", SCALES)
def test_documented_scales(name):
    text = pathlib.Path(__file__).parents[2] / "docs" / "ablations.md"
    scale = SCALES[name]
    row = (
        f"| `{name}` | {scale.hidden_size} | {scale.num_hidden_layers} | "
        f"{scale.train_batch_size} x {scale.max_seq_length} | "
        f"{scale.num_train_steps:,} | {scale.vocab_size:,} | "
    )
    (found,) = (x for x in text.read_text().splitlines() if x.startswith(row))
    assert f" {scale.text_megabytes:g} MB | {scale.seeds} |" in found


def test_initial_weights_depend_on_the_width():
    base = SCALES["minutes"].base
    wide = STUDIES["width"].rows[2].architecture(base)
    assert wide.hidden_size == 2 * base.hidden_size
    assert wide.initializer_range == pytest.approx(
        base.initializer_range / 2**0.5, abs=1e-3
    )


def test_only_wider_models_have_a_lower_learning_rate():
    base = SCALES["minutes"].base
    rates = [row.learning_rate(1e-3, base) for row in STUDIES["width"].rows]
    assert rates == [1e-3, 1e-3, 5e-4, 5e-4]


def test_studies_by_name_and_number():
    assert find_studies("5") == find_studies(["sentence_order"])
    assert [x.name for x in find_studies(["12", "13", "3"])] == [
        "width",
        "embedding_size",
    ]
    assert [x.name for x in find_studies("all")] == [*STUDIES]
    with pytest.raises(InputError, match="'7' must be one of"):
        find_studies("7")


def test_own_studies_and_the_papers():
    heads = Study(name="heads", title="Heads", rows=(StudyRow("one"),))
    assert find_studies(heads) == [heads]
    assert find_studies(["8", heads]) == [STUDIES["dropout"], heads]
    other = dataclasses.replace(heads, name="dropout")
    with pytest.raises(InputError, match="two studies are named 'dropout'"):
        find_studies(["8", other])


def test_some_rows_of_a_study():
    study = STUDIES["sentence_order"].with_rows("NSP", "SOP")
    assert [row.name for row in study.rows] == ["NSP", "SOP"]
    assert study.claims == STUDIES["sentence_order"].claims[:-1]
    study = STUDIES["depth"].with_rows("3 layers", "1 layer")
    (claim,) = study.claims
    assert (claim.row, claim.than) == ("3 layers", "1 layer")
    assert CHANCE in [
        claim.than
        for claim in STUDIES["sentence_order"].with_rows("SOP").claims
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "../x"}, "must consist of letters, digits and `_`"),
        ({"rows": ()}, "rows must not be empty"),
        ({"rows": (StudyRow("a"), StudyRow("a"))}, "two rows are named 'a'"),
        (
            {"claims": (StudyClaim("", "a", 0.5, "no_better"),)},
            "kind='no_better' of a claim must be one of 'better', 'equal'",
        ),
        (
            {"claims": (StudyClaim("", "a", 0.5, score="seconds"),)},
            "score='seconds' of a claim must be one of",
        ),
        (
            {"claims": (StudyClaim("", "z", 0.5),)},
            "unknown row 'z', known rows: 'a'",
        ),
        (
            {"claims": (StudyClaim("", "a", "z"),)},
            "unknown row 'z', known rows: 'a'",
        ),
    ],
)
def test_invalid_studies(changes, message):
    values = {"name": "own", "title": "Own", "rows": (StudyRow("a"),)}
    with pytest.raises(InputError, match=re.escape(message)):
        Study(**values | changes)
