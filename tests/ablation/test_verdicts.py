"""Verdicts on given scores, and their error rates on simulated ones."""

import dataclasses
import math

import numpy as np
import pytest
from ablation_results import dropout, losses, make_result
from scipy import stats

from albert_tf.ablation.results import StudyResult
from albert_tf.ablation.studies import STUDIES
from albert_tf.ablation.study import (
    ABOVE_PLATEAU,
    CHANCE,
    DOWNSTREAM,
    MARGINS,
    MLM_LOSS,
    Study,
    StudyClaim,
    StudyRow,
)
from albert_tf.ablation.verdicts import MIN_SEEDS, adjust, judge

LOW, HIGH = (2.0, 2.1, 2.2, 2.0, 2.1), (3.0, 3.1, 3.2, 3.0, 3.1)


def share_runs(result, name, runs):
    """The result with other names of a row's runs."""
    rows = tuple(
        dataclasses.replace(row, runs=runs) if row.name == name else row
        for row in result.rows
    )
    return StudyResult(result.study, rows)


def verdict(result, **options):
    (((found),),) = judge([result], **options)
    return found


@pytest.mark.parametrize(
    ("with_dropout", "without", "outcome"),
    [
        (HIGH, LOW, "reproduced"),
        (LOW, HIGH, "reversed"),
        (
            (2.0, 3.0, 2.5, 2.1, 2.9),
            (2.1, 2.9, 2.6, 2.0, 3.0),
            "not reproduced",
        ),
        (HIGH[:4], LOW[:4], "not judged"),
    ],
)
def test_better(with_dropout, without, outcome):
    assert verdict(dropout(with_dropout, without)).outcome == outcome


def test_evidence_is_that_of_scipy():
    found = verdict(dropout(HIGH, (2.8, 2.9, 3.1, 3.0, 3.05))).evidence
    test = stats.ttest_ind((2.8, 2.9, 3.1, 3.0, 3.05), HIGH, equal_var=False)
    low, high = test.confidence_interval(0.95)
    assert f"[{low:+.3f}, {high:+.3f}], p = {test.pvalue:.3f}" in found


def test_evidence_of_a_comparison_with_a_number():
    values = (0.61, 0.62, 0.64, 0.6, 0.63)
    claim = StudyClaim("above chance", "a", CHANCE, score="sop_accuracy")
    study = Study(
        name="own", title="Own", rows=(StudyRow("a"),), claims=(claim,)
    )
    seeds = [{"mlm_loss": 2.0, "sop_accuracy": value} for value in values]
    found = verdict(make_result(study, [seeds]))
    assert found.outcome == "reproduced"
    low, high = stats.ttest_1samp(values, CHANCE).confidence_interval(0.95)
    low, high = (f"{100 * (x - CHANCE):+.1f}" for x in (low, high))
    assert f"difference +12.0 points [{low}, {high}]" in found.evidence
    claim = StudyClaim("of a loss", "a", 2, score=MLM_LOSS)
    study = dataclasses.replace(study, claims=(claim,))
    found = verdict(make_result(study, [losses(1.5, 1.6, 1.4, 1.5, 1.6)]))
    assert found.outcome == "reproduced"
    assert "to compare with 2; difference -0.480" in found.evidence


def equal_study(kind="equal"):
    return Study(
        name="own",
        title="Own",
        rows=(StudyRow("a"), StudyRow("b")),
        claims=(StudyClaim("a is as good as b.", "a", "b", kind),),
    )


@pytest.mark.parametrize(
    ("values", "outcome"),
    [
        # Within the margin of 0.05, whether or not they differ significantly.
        ((2.000, 2.001, 2.002, 2.003, 2.004), "reproduced"),
        ((2.020, 2.021, 2.022, 2.023, 2.024), "reproduced"),
        # Failures to find a difference.
        ((1.9, 2.1, 2.2, 1.8, 2.0), "not reproduced"),
        ((0.5, 2.0, 9.0, 1.0, 3.0), "not reproduced"),
        # Neither better nor worse ones are equal.
        ((1.000, 1.001, 1.002, 1.003, 1.004), "not reproduced"),
        ((3.000, 3.001, 3.002, 3.003, 3.004), "not reproduced"),
    ],
)
def test_equality_needs_evidence(values, outcome):
    scores = [losses(*values), losses(2.0, 2.001, 2.002, 2.003, 2.004)]
    assert verdict(make_result(equal_study(), scores)).outcome == outcome


@pytest.mark.parametrize(
    ("failed", "reason"),
    [
        ({"mlm_loss": math.nan}, "1 of 5 runs of 'a' diverged or are still"),
        ({"mlm_loss": 2.0, ABOVE_PLATEAU: 0.9}, "still on the plateau"),
    ],
)
@pytest.mark.parametrize("kind", ["better", "equal"])
def test_failed_runs_are_not_judged(failed, reason, kind):
    scores = [[*losses(*LOW[:4]), failed], losses(*HIGH)]
    found = verdict(make_result(equal_study(kind), scores))
    assert found.outcome == "not judged"
    assert reason in found.evidence


def test_too_short_runs_are_not_judged():
    found = verdict(dropout(HIGH, LOW), judged=False)
    assert found.outcome == "not judged"
    assert "too short" in found.evidence


def test_downstream_score_takes_precedence():
    better, worse = losses(*HIGH), losses(*LOW)
    for scores, accuracy in ((better, 0.9), (worse, 0.5)):
        for number, seed in enumerate(scores):
            seed[DOWNSTREAM] = accuracy + number / 1000
    found = verdict(make_result(STUDIES["dropout"], [worse, better]))
    assert found.outcome == "reproduced"
    assert "90.2" in found.evidence


def test_runs_that_diverge_in_fine_tuning_are_not_judged():
    scores = [losses(*LOW), losses(*HIGH)]
    for number, seed in enumerate([*scores[0], *scores[1]]):
        seed[DOWNSTREAM] = math.nan if number == 0 else 0.9
    found = verdict(make_result(STUDIES["dropout"], scores))
    assert found.outcome == "not judged"
    assert "1 of 5 runs of 'with dropout' diverged" in found.evidence


def test_claims_without_their_score_are_not_judged():
    scores = [losses(*LOW)] * 3
    for seeds in scores:
        for seed in seeds:
            seed["nsp_accuracy"] = 0.5
    verdicts = judge([make_result(STUDIES["sentence_order"], scores)])[0]
    assert [x.outcome for x in verdicts[4:]] == ["not judged"] * 2
    assert "give --train and --dev" in verdicts[4].evidence


def test_identical_models_are_one_claim():
    first = dropout(HIGH, LOW)
    other = dataclasses.replace(
        STUDIES["dropout"],
        name="other",
        # The same pair, seen from the other side.
        claims=(StudyClaim("", "with dropout", "without dropout"),),
    )
    second = make_result(other, [losses(*HIGH), losses(*LOW)])
    for row in first.rows:
        second = share_runs(second, row.name, row.runs)
    alone = verdict(first)
    (one,), (repeated,) = judge([first, second])
    assert one == alone  # The repetition does not count in Holm's correction.
    assert (one.outcome, repeated.outcome) == ("reproduced", "reversed")
    assert repeated.repeats == first.heading


def test_a_model_is_not_compared_with_itself():
    result = dropout(HIGH, HIGH)
    result = share_runs(result, "with dropout", result.rows[1].runs)
    found = verdict(result)
    assert found.outcome == "not judged"
    assert "the same model" in found.evidence


def test_holm():
    # The example of R's p.adjust(c(0.01, 0.02, 0.03, 0.04), "holm").
    p_values = {"b": 0.02, "a": 0.01, "d": 0.04, "c": 0.03}
    expected = {"a": 0.04, "b": 0.06, "c": 0.06, "d": 0.06}
    assert adjust(p_values) == pytest.approx(expected)
    assert adjust({}) == {}


def test_equal_values_have_no_spread():
    assert verdict(dropout((2.0,) * 5, (2.0,) * 5)).outcome != "reproduced"
    assert verdict(dropout((3.0,) * 5, (2.0,) * 5)).outcome == "reproduced"


def null_scores(study):
    """True scores of rows at which no claim holds, if that is possible.

    Rows that are said to differ are equal, and one that is said to be as good
    as another differs from it by the margin, which is the hardest case.
    """
    means = {row.name: {MLM_LOSS: 2.0} for row in study.rows}
    for claim in study.claims:
        score = claim.score or MLM_LOSS
        for name in (claim.row, claim.than):
            if isinstance(name, str):
                start = 2.0 if score == MLM_LOSS else CHANCE
                means[name].setdefault(score, start)
        if claim.kind == "equal":
            than = claim.than
            base = than if isinstance(than, float) else means[than][score]
            means[claim.row][score] = base + MARGINS[score]
    return means


def is_false(verdict, means):
    """Whether a verdict contradicts the true scores."""
    claim = verdict.claim
    score = claim.score or MLM_LOSS
    than = claim.than
    other = than if isinstance(than, float) else means[than][score]
    better = means[claim.row][score] - other
    if score == MLM_LOSS:
        better = -better
    if claim.kind == "equal":
        holds = abs(better) < MARGINS[score] - 1e-9
        return verdict.outcome == "reproduced" and not holds
    return (verdict.outcome == "reproduced" and better < 1e-9) or (
        verdict.outcome == "reversed" and better > -1e-9
    )


def simulated(rng, study, means):
    """Normal scores of a study's rows, which differ in their spread."""
    scores = []
    for row in study.rows:
        spread = rng.choice([0.003, 0.01, 0.03])
        scores.append(
            [
                {"nsp_accuracy": CHANCE, DOWNSTREAM: CHANCE}
                | {x: rng.normal(y, spread) for x, y in means[row.name].items()}
                for _ in range(MIN_SEEDS)
            ]
        )
    if not study.fine_tuned:
        for seeds in scores:
            for seed in seeds:
                del seed[DOWNSTREAM]
    return scores


@pytest.mark.long
def test_false_findings_are_rare():
    rng = np.random.default_rng(0)
    reports, wrong = 600, 0
    truth = {name: null_scores(study) for name, study in STUDIES.items()}
    for _ in range(reports):
        results = [
            make_result(study, simulated(rng, study, truth[name]))
            for name, study in STUDIES.items()
        ]
        wrong += any(
            is_false(verdict, truth[result.study.name])
            for result, verdicts in zip(results, judge(results), strict=True)
            for verdict in verdicts
        )
    # At most 5 %, up to twice the standard error of this simulation.
    assert wrong / reports <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / reports)


def test_real_differences_are_found():
    rng = np.random.default_rng(1)
    reports, found = 20, 0
    for _ in range(reports):
        results = []
        for study in STUDIES.values():
            means = null_scores(study)
            if study.name == "dropout":
                means["with dropout"][MLM_LOSS] += 0.3
            results.append(make_result(study, simulated(rng, study, means)))
        outcomes = {
            verdict.claim.text: verdict.outcome
            for verdicts in judge(results)
            for verdict in verdicts
        }
        (claim,) = STUDIES["dropout"].claims
        found += outcomes[claim.text] == "reproduced"
    assert found >= 0.9 * reports
