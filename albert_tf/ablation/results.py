"""Results of ablation studies: the scores of each row over seeds."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Mapping

import numpy as np

from albert_tf.ablation.study import (
    ABOVE_PLATEAU,
    DOWNSTREAM,
    MLM,
    MLM_LOSS,
    NSP,
    SOP,
    Study,
    StudyClaim,
)

TITLES = {
    MLM_LOSS: "MLM loss",
    MLM: "MLM accuracy",
    SOP: "SOP accuracy",
    NSP: "NSP accuracy",
    DOWNSTREAM: "downstream accuracy",
    "average": "average",
}


def is_better(score: str, difference: float) -> bool:
    """Returns whether a model with this difference in a score is better."""
    return difference < 0 if score == MLM_LOSS else difference > 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowResult:
    """Scores of the runs of a row.

    Attributes:
      name: Name of the row.
      runs: Names of the runs, equal to another row's if the models are.
      parameters: Number of parameters of the encoder.
      steps: Steps of each run, in all its stages.
      flops: Floating-point operations of the training of each run.
      scores: Scores by name, for each seed.
    """

    name: str
    runs: tuple[str, ...]
    parameters: int
    steps: int
    flops: float
    scores: tuple[Mapping[str, float], ...]

    def values(self, score: str) -> list[float]:
        """Returns the values of a score over seeds."""
        return [scores[score] for scores in self.scores]

    def mean(self, score: str) -> float:
        """Returns the mean of a score over seeds."""
        return statistics.fmean(self.values(score))

    def spread(self, score: str) -> float:
        """Returns the standard deviation over seeds, 0 for one seed."""
        values = self.values(score)
        # Unlike statistics.stdev, accepts the NaN of a run that diverged.
        return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0

    def number(self, score: str) -> str:
        """Returns mean and standard deviation of a score, as text."""
        mean, spread = self.mean(score), self.spread(score)
        if score == MLM_LOSS:
            return f"{mean:.3f} ± {spread:.3f}"
        return f"{100 * mean:.1f} ± {100 * spread:.1f} %"

    def failed_runs(self, score: str) -> int:
        """Returns the number of runs that diverged or are on the plateau.

        A run without the score has diverged, too.
        """
        return sum(
            not math.isfinite(scores[MLM_LOSS])
            or not math.isfinite(scores[score])
            or scores[ABOVE_PLATEAU] < 1
            for scores in self.scores
        )


@dataclasses.dataclass(frozen=True)
class StudyResult:
    """Results of a study and of its rows, in order."""

    study: Study
    rows: tuple[RowResult, ...]

    @property
    def heading(self) -> str:
        """Heading of the study, with the number of the paper's table."""
        table = f"Table {self.study.table}: " if self.study.table else ""
        return f"{table}{self.study.title} (`{self.study.name}`)"

    @property
    def score(self) -> str:
        """Name of the score that models are compared by."""
        return DOWNSTREAM if self.has(DOWNSTREAM) else MLM_LOSS

    @property
    def judged_scores(self) -> list[str]:
        """Names of the scores that the claims are about, as far as known."""
        scores = {self.score_of(claim) for claim in self.study.claims}
        return [x for x in TITLES if x in scores and self.has(x)] or [
            self.score
        ]

    def score_of(self, claim: StudyClaim) -> str:
        """Returns the name of the score that a claim is about."""
        return claim.score or self.score

    def has(self, score: str) -> bool:
        """Returns whether the models have a score."""
        return all(score in scores for r in self.rows for scores in r.scores)

    def row(self, name: str) -> RowResult:
        """Returns the result of a row."""
        (found,) = (row for row in self.rows if row.name == name)
        return found
