"""Verdicts: statistical tests of the claims of a report.

Rows are compared by Welch's t-test over seeds. That two rows are equal is never
concluded from a failure to find a difference, but from two one-sided tests that
the difference is inside a margin (Schuirmann 1987). All claims of a report are
one family, whose error rate is controlled by Holm's method (Holm 1979).
"""

from __future__ import annotations

import dataclasses
import math
import statistics
import types
import warnings
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal

from albert_tf.ablation.results import TITLES, RowResult, StudyResult, is_better
from albert_tf.ablation.study import MARGINS, MLM_LOSS, StudyClaim
from albert_tf.errors import counted
from albert_tf.optional_packages import import_package

MIN_SEEDS = 5
# For a family-wise error rate of 5 %: with five values of unequal spread each,
# Welch's test errs up to 1.7 times as often as it should in the tails that
# Holm's method needs.
ALPHA = 0.03

Outcome = Literal["reproduced", "reversed", "not reproduced", "not judged"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether a claim holds for the runs of a study.

    Attributes:
      outcome: "reproduced" or "reversed" if a test says so; "not reproduced" if
        none does, which is no evidence of the contrary; or "not judged".
      evidence: The scores that were compared and the test, in words.
      repeats: Heading of the study that has the same claim about the same runs,
        which counts once; "" if there is none.
    """

    claim: StudyClaim
    outcome: Outcome
    evidence: str
    repeats: str = ""


@dataclasses.dataclass(frozen=True)
class _Comparison:
    """A comparison of a row's score with another row's, or with a number.

    Attributes:
      difference: Mean of the row minus that of the other.
      interval: 95 % confidence interval of the difference.
      p: p-value of the claim's test, before the correction.
    """

    difference: float
    interval: tuple[float, float]
    p: float


def import_scipy_stats() -> types.ModuleType:
    """Imports scipy's statistics, if they are installed."""
    return import_package("scipy.stats", "verdicts of studies")


def judge(
    results: Sequence[StudyResult], *, judged: bool = True
) -> list[list[Verdict]]:
    """Tests the claims of all studies of a report, as one family.

    Returns the verdicts of each study, in the order of its claims. `judged` is
    whether the runs are long enough to be judged at all.
    """
    comparisons: dict[tuple[int, StudyClaim], _Comparison] = {}
    p_values: dict[Hashable, float] = {}
    for number, result in enumerate(results):
        for claim in result.study.claims:
            if judged and not _why_not_judged(result, claim):
                comparison = _compare(result, claim)
                comparisons[number, claim] = comparison
                p_values[_key(result, claim)] = comparison.p
    adjusted = adjust(p_values)
    seen: dict[Hashable, str] = {}
    verdicts = []
    for number, result in enumerate(results):
        verdicts.append([])
        for claim in result.study.claims:
            key = _key(result, claim)
            comparison = comparisons.get((number, claim))
            outcome, evidence = "not judged", _scores(result, claim)
            if comparison:
                p = adjusted[key]
                outcome = _outcome(result.score_of(claim), claim, comparison, p)
                evidence += f"; {_test(result, claim, comparison, p)}"
            elif judged:
                evidence += f"; {_why_not_judged(result, claim)}"
            else:
                evidence += "; runs of this scale are too short"
            verdicts[-1].append(
                Verdict(
                    claim=claim,
                    outcome=outcome,
                    evidence=evidence.removeprefix("; "),
                    repeats=seen.get(key, ""),
                )
            )
            seen.setdefault(key, result.heading)
    return verdicts


def adjust(p_values: Mapping[Hashable, float]) -> dict[Hashable, float]:
    """Adjusts the p-values of a family of tests by Holm's method."""
    adjusted: dict[Hashable, float] = {}
    largest = 0.0
    for rank, key in enumerate(sorted(p_values, key=p_values.__getitem__)):
        largest = max(largest, (len(p_values) - rank) * p_values[key])
        adjusted[key] = min(1.0, largest)
    return adjusted


def _key(result: StudyResult, claim: StudyClaim) -> Hashable:
    """Returns what a claim is about, equal for equal runs."""
    than = claim.than
    other = than if isinstance(than, float) else result.row(than).runs
    compared = frozenset([result.row(claim.row).runs, other])
    return claim.kind, result.score_of(claim), compared


def _why_not_judged(result: StudyResult, claim: StudyClaim) -> str:
    """Returns why a claim cannot be judged, "" if it can."""
    rows = _rows(result, claim)
    if not result.has(result.score_of(claim)):
        return "no model was fine-tuned: give --train and --dev"
    if len(rows) == 2 and rows[0].runs == rows[1].runs:
        return "both rows are the same model"
    for row in rows:
        if len(row.scores) < MIN_SEEDS:
            seeds = counted(len(row.scores), "seed")
            return f"{seeds} of at least {MIN_SEEDS}"
    for row in rows:
        if failed := row.failed_runs(result.score_of(claim)):
            return (
                f"{failed} of {len(row.scores)} runs of {row.name!r} diverged "
                "or are still on the plateau"
            )
    return ""


def _compare(result: StudyResult, claim: StudyClaim) -> _Comparison:
    stats = import_scipy_stats()
    score, than = result.score_of(claim), claim.than
    own = result.row(claim.row).values(score)
    other = [] if isinstance(than, float) else result.row(than).values(score)

    def test(shift: float = 0.0, alternative: str = "two-sided") -> Any:
        shifted = [value + shift for value in own]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of values that are all equal
            if isinstance(than, float):
                return stats.ttest_1samp(shifted, than, alternative=alternative)
            return stats.ttest_ind(
                shifted, other, equal_var=False, alternative=alternative
            )

    two_sided = test()
    tests = [two_sided]
    if claim.kind == "equal":
        margin = MARGINS[score]
        tests = [test(margin, "greater"), test(-margin, "less")]
    mean = than if isinstance(than, float) else statistics.fmean(other)
    difference = statistics.fmean(own) - mean
    # That of a single sample is the interval of its mean.
    offset = than if isinstance(than, float) else 0.0
    low, high = (
        difference if math.isnan(x) else float(x) - offset
        for x in two_sided.confidence_interval(0.95)
    )
    # There is no p-value if all values are equal.
    p = max(1.0 if math.isnan(x.pvalue) else float(x.pvalue) for x in tests)
    return _Comparison(difference, (low, high), p)


def _outcome(
    score: str, claim: StudyClaim, comparison: _Comparison, p: float
) -> Outcome:
    if p > ALPHA:
        return "not reproduced"
    if claim.kind == "equal" or is_better(score, comparison.difference):
        return "reproduced"
    return "reversed"


def _rows(result: StudyResult, claim: StudyClaim) -> list[RowResult]:
    names = [claim.row]
    names += [] if isinstance(claim.than, float) else [claim.than]
    return [result.row(name) for name in names]


def _scores(result: StudyResult, claim: StudyClaim) -> str:
    score = result.score_of(claim)
    if not result.has(score):
        return ""
    row, *other = _rows(result, claim)
    text = f"{TITLES[score]} {row.number(score)}"
    if other:
        return f"{text} against {other[0].number(score)}"
    than = float(claim.than)
    number = f"{than:g}" if score == MLM_LOSS else f"{100 * than:g} %"
    return f"{text}, to compare with {number}"


def _test(
    result: StudyResult, claim: StudyClaim, comparison: _Comparison, p: float
) -> str:
    score = result.score_of(claim)
    is_loss = score == MLM_LOSS
    factor, digits, unit = (1, 3, "") if is_loss else (100, 1, " points")
    difference, low, high = (
        f"{factor * x:+.{digits}f}"
        for x in (comparison.difference, *comparison.interval)
    )
    text = f"difference {difference}{unit} [{low}, {high}]"
    if claim.kind == "equal":
        text += f", margin {factor * MARGINS[score]:g}{unit}"
    return f"{text}, p {'< 0.001' if p < 0.001 else f'= {p:.3f}'}"
