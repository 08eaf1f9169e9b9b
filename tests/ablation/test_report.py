"""Verdicts and reports from given scores, without training."""

import dataclasses
import pathlib
import re

import pytest

from albert_tf.ablation.config import SCALES
from albert_tf.ablation.report import Ablation, RowResult, StudyResult
from albert_tf.ablation.run import find_studies
from albert_tf.ablation.studies import STUDIES
from albert_tf.ablation.study import Study, StudyClaim, StudyRow
from albert_tf.errors import InputError


def result(name, scores):
    """Returns the result of a study from the scores of its rows."""
    study = STUDIES[name]
    rows = [
        RowResult(row.name, 1000, 10, tuple(seeds), ([(1.0, 0.1)],) * 2)
        for row, seeds in zip(study.rows, scores, strict=True)
    ]
    return StudyResult(study, tuple(rows))


def losses(*values):
    names = ("mlm_accuracy", "sop_accuracy", "seconds")
    return [dict.fromkeys(names, 0.5) | {"mlm_loss": x} for x in values]


@pytest.mark.parametrize(
    ("with_dropout", "without", "outcome"),
    [
        ((3.0, 3.1), (2.0, 2.1), "reproduced"),
        ((2.0, 2.1), (3.0, 3.1), "reversed"),
        ((2.0, 3.0), (2.1, 2.9), "not reproduced"),
        ((3.0,), (2.0,), "not judged"),
    ],
)
def test_difference_must_exceed_the_spread(with_dropout, without, outcome):
    study = result("dropout", [losses(*with_dropout), losses(*without)])
    (verdict,) = study.verdicts()
    assert verdict.outcome == outcome


def test_downstream_score_takes_precedence():
    better, worse = losses(3.0, 3.1), losses(2.0, 2.1)
    for scores, accuracy in ((better, 0.9), (worse, 0.5)):
        for seed in scores:
            seed["downstream_accuracy"] = accuracy
    (verdict,) = result("dropout", [worse, better]).verdicts()
    assert verdict.outcome == "reproduced"
    assert "90.0" in verdict.evidence


def crossed(sop, nsp):
    return [
        x | {"sop_accuracy": sop, "nsp_accuracy": nsp} for x in losses(3, 3)
    ]


@pytest.mark.parametrize(
    ("nsp_model", "sop_model", "outcomes"),
    [
        ((0.52, 0.9), (0.86, 0.79), ["reproduced"] * 4),
        (
            (0.7, 0.54),
            (0.58, 0.5),
            ["not reproduced"] * 4,
        ),
    ],
)
def test_claims_on_cross_evaluation(nsp_model, sop_model, outcomes):
    scores = [crossed(0.5, 0.5), crossed(*nsp_model), crossed(*sop_model)]
    study = result("sentence_order", scores)
    assert [x.outcome for x in study.verdicts()] == outcomes


def test_report(tmp_path):
    study = result("dropout", [losses(3.0, 3.1), losses(2.0, 2.1)])
    Ablation("smoke", "A small model.", (study,)).save(tmp_path)
    text = (tmp_path / "report.md").read_text("utf-8")
    assert "## Table 8: Dropout (`dropout`)" in text
    assert "xxlarge, without dropout |          90.7 % |" in text
    assert "2.050 ± 0.071" in text
    assert "1 of 1 findings were reproduced" in text
    assert (tmp_path / "dropout.png").stat().st_size > 5000


def test_findings_of_one_seed_are_not_counted():
    study = result("dropout", [losses(3.0), losses(2.0)])
    text = Ablation("smoke", "A small model.", (study,)).table()
    assert "**Not judged**" in text
    assert "findings were reproduced" not in text


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
        f"| `{name}` | {scale.hidden_size} | {scale.train_batch_size} x "
        f"{scale.max_seq_length} | {scale.num_train_steps:,} | "
        f"{scale.vocab_size:,} | "
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
    assert study.claims == STUDIES["sentence_order"].claims
    study = STUDIES["depth"].with_rows("3 layers", "1 layer")
    (claim,) = study.claims
    assert (claim.row, claim.than) == ("3 layers", "1 layer")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "../x"}, "must consist of letters, digits and `_`"),
        ({"rows": ()}, "rows must not be empty"),
        ({"rows": (StudyRow("a"), StudyRow("a"))}, "two rows are named 'a'"),
        (
            {"rows": (StudyRow("a", init_from="b"),)},
            "unknown row 'b', known rows: none",
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


def test_rows_that_others_start_from_are_required():
    with pytest.raises(
        InputError, match="unknown row '1 layer', known rows: none"
    ):
        STUDIES["depth"].with_rows("3 layers")
