"""Report of ablation studies: tables, plots and verdicts on claims."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.ablation.study import (
    DOWNSTREAM,
    MLM,
    MLM_LOSS,
    NEAR_CHANCE,
    NSP,
    SOP,
    Study,
    StudyClaim,
)
from albert_tf.analysis.figures import (
    COLOURS,
    import_pyplot,
    markdown_table,
    save_figure,
)
from albert_tf.files import write_atomically

REPORT, RESULTS = "report.md", "report.json"

_TITLES = {
    MLM_LOSS: "MLM loss",
    MLM: "MLM accuracy",
    SOP: "SOP accuracy",
    NSP: "NSP accuracy",
    DOWNSTREAM: "downstream accuracy",
    "average": "average",
}


@dataclasses.dataclass(frozen=True)
class RowResult:
    """Scores of the runs of a row.

    Attributes:
      name: Name of the row.
      parameters: Number of parameters of the encoder.
      steps: Steps of each run.
      scores: Scores by name, for each seed; `seconds` is the time of training
        and evaluations.
      curves: (seconds, MLM accuracy) of each evaluation, for each seed.
    """

    name: str
    parameters: int
    steps: int
    scores: tuple[Mapping[str, float], ...]
    curves: tuple[Sequence[Sequence[float]], ...] = ()

    def values(self, score: str) -> list[float]:
        """Returns the values of a score over seeds."""
        return [scores[score] for scores in self.scores]

    def mean(self, score: str) -> float:
        """Returns the mean of a score over seeds."""
        return statistics.fmean(self.values(score))

    def spread(self, score: str) -> float:
        """Returns the standard deviation over seeds, 0 for one seed."""
        values = self.values(score)
        return statistics.stdev(values) if len(values) > 1 else 0.0


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Whether a claim holds for the runs of a study.

    Attributes:
      claim: The claim.
      outcome: "reproduced", "not reproduced", "reversed" or "not judged".
      evidence: The scores that were compared, in words.
    """

    claim: StudyClaim
    outcome: str
    evidence: str


@dataclasses.dataclass(frozen=True)
class StudyResult:
    """Results of a study.

    Attributes:
      study: The study.
      rows: Results of its rows, in order.
    """

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
        return DOWNSTREAM if self._has(DOWNSTREAM) else MLM_LOSS

    def _has(self, score: str) -> bool:
        return score in self.rows[0].scores[0]

    def verdicts(self) -> list[Verdict]:
        """Tests the claims of the study.

        A difference counts if it exceeds the sum of the standard deviations of
        the two rows over seeds, so at least two seeds are needed.
        """
        return [self._verdict(claim) for claim in self.study.claims]

    def _verdict(self, claim: StudyClaim) -> Verdict:
        rows = {row.name: row for row in self.rows}
        row, score = rows[claim.row], claim.score or self.score
        mean, spread = row.mean(score), row.spread(score)
        name = _TITLES[score]
        if isinstance(claim.than, float):
            if claim.kind == "near":
                holds = abs(mean - claim.than) <= NEAR_CHANCE
                rule = f"within 5 points of {claim.than:.0%}"
            else:
                holds = mean - spread > claim.than
                rule = f"above {claim.than:.0%} by more than the spread"
            negation = "" if holds else "not "
            return Verdict(
                claim,
                f"{negation}reproduced",
                f"{name} {_number(score, mean, spread)}, {negation}{rule}",
            )
        other = rows[claim.than]
        difference = mean - other.mean(score)
        if "loss" in score:
            difference = -difference
        both = spread + other.spread(score)
        evidence = (
            f"{name} {_number(score, mean, spread)} against "
            f"{_number(score, other.mean(score), other.spread(score))}"
        )
        if len(row.scores) < 2:
            return Verdict(
                claim, "not judged", f"{evidence}; one seed has no spread"
            )
        if abs(difference) <= both:
            evidence += "; the difference is within the spread"
        better = difference > both
        if claim.kind == "no_better":
            outcome = "not reproduced" if better else "reproduced"
        elif better:
            outcome = "reproduced"
        else:
            outcome = "reversed" if -difference > both else "not reproduced"
        return Verdict(claim, outcome, evidence)

    def table(self) -> str:
        """Returns a Markdown table of the scores, beside the paper's."""
        names = [x for x in _TITLES if self._has(x)]
        papers = list(
            dict.fromkeys(x for r in self.study.rows for x in r.paper_scores)
        )
        titles = [_TITLES[x] for x in names]
        head = ["", "parameters", "steps", *titles, "seconds"]
        if papers:
            head += ["in the paper", *(f"{_TITLES[x]} (paper)" for x in papers)]
        lines = []
        for row, described in zip(self.rows, self.study.rows, strict=True):
            cells = [row.name, f"{row.parameters:,}", f"{row.steps:,}"]
            cells += [_number(x, row.mean(x), row.spread(x)) for x in names]
            cells.append(f"{row.mean('seconds'):.0f}")
            if papers:
                cells.append(described.paper)
                known = described.paper_scores
                cells += [f"{known[x]} %" if x in known else "" for x in papers]
            lines.append(cells)
        return markdown_table(head, lines)

    def markdown(self) -> str:
        """Returns the study's section of the report."""
        lines = [f"## {self.heading}", "", self.table(), ""]
        for verdict in self.verdicts():
            lines.append(
                f"- {verdict.claim.text} **{verdict.outcome.capitalize()}**: "
                f"{verdict.evidence}."
            )
        return "\n".join([*lines, "", f"![{self.study.title}]({self.picture})"])

    @property
    def picture(self) -> str:
        """File name of the plot."""
        return f"{self.study.name}.png"

    def to_json(self) -> dict[str, Any]:
        """Returns the results as JSON values."""
        return {
            "study": self.study.name,
            "table": self.study.table,
            "rows": [
                {
                    **dataclasses.asdict(row),
                    "paper": described.paper,
                    "paper_scores": dict(described.paper_scores),
                }
                for row, described in zip(
                    self.rows, self.study.rows, strict=True
                )
            ],
            "claims": [
                {
                    "claim": verdict.claim.text,
                    "outcome": verdict.outcome,
                    "evidence": verdict.evidence,
                }
                for verdict in self.verdicts()
            ],
        }

    def plot(self, output: str | os.PathLike[str]) -> None:
        """Plots the scores of all seeds, their means, and the paper's scores.

        With equal computation, also plots the accuracy over wall time.

        Args:
          output: Path of the plot; the suffix selects the format.
        """
        pyplot = import_pyplot()
        scores = [x for x in (MLM, SOP, NSP) if self._has(x)]
        if self.score == DOWNSTREAM:
            scores.append(DOWNSTREAM)
        papers = any(row.paper_scores for row in self.study.rows)
        curves = int(self.study.equal_compute)
        width = len(scores) + int(papers) + curves
        figure, axes = pyplot.subplots(
            1,
            width,
            figsize=(1.6 + 2.5 * width, 1.3 + 0.34 * len(self.rows)),
            squeeze=False,
            layout="constrained",
        )
        panels = list(axes[0])
        for score in scores:
            self._draw_scores(panels.pop(0), score)
        if papers:
            self._draw_paper(panels.pop(0))
        if curves:
            self._draw_curves(panels.pop(0))
        for number, axis in enumerate(axes[0]):
            axis.grid(alpha=0.3)
            axis.spines[["top", "right"]].set_visible(False)
            if number and number < width - curves:
                axis.set_yticklabels([])
        figure.suptitle(self.study.title, fontsize="medium")
        save_figure(figure, output)

    def _draw_scores(self, axis: Any, score: str) -> None:
        for number, row in enumerate(self.rows):
            values = [100 * value for value in row.values(score)]
            axis.plot(
                values, [number] * len(values), "o", color=COLOURS[0], alpha=0.4
            )
            axis.plot(statistics.fmean(values), number, "|", ms=14, color="k")
        if score in (SOP, NSP):
            axis.axvline(50, color="grey", ls=":")
        self._label_rows(axis, f"{_TITLES[score]}, %")

    def _draw_paper(self, axis: Any) -> None:
        markers = {"average": "D", MLM: "o", NSP: "s", SOP: "^"}
        for score, marker in markers.items():
            points = [
                (row.paper_scores[score], number)
                for number, row in enumerate(self.study.rows)
                if score in row.paper_scores
            ]
            if points:
                axis.plot(
                    *zip(*points, strict=True),
                    marker,
                    color=COLOURS[1],
                    mfc="none",
                    label=_TITLES[score].removesuffix(" accuracy"),
                )
        self._label_rows(axis, "the paper's, %")
        if len(axis.lines) > 1:
            axis.legend(fontsize="x-small", frameon=False)

    def _label_rows(self, axis: Any, label: str) -> None:
        axis.set_yticks(range(len(self.rows)), [row.name for row in self.rows])
        axis.set_ylim(len(self.rows) - 0.5, -0.5)
        axis.margins(x=0.15)
        axis.set_xlabel(label)

    def _draw_curves(self, axis: Any) -> None:
        for row, colour in zip(self.rows, COLOURS, strict=False):
            for number, curve in enumerate(row.curves):
                seconds, accuracies = zip(*curve, strict=True)
                axis.plot(
                    seconds,
                    [100 * value for value in accuracies],
                    color=colour,
                    alpha=0.7,
                    label=row.name if number == 0 else None,
                )
        axis.set_xlabel("wall time, s")
        axis.set_ylabel("MLM accuracy, %")
        axis.legend(fontsize="x-small", frameon=False)


@dataclasses.dataclass(frozen=True)
class Ablation:
    """Results of ablation studies.

    Attributes:
      scale: Name of the scale.
      setup: Description of the base model and its training.
      studies: Results of each study.
    """

    scale: str
    setup: str
    studies: tuple[StudyResult, ...]

    def table(self) -> str:
        """Returns the report as Markdown."""
        sections = [study.markdown() for study in self.studies]
        verdicts = [x for study in self.studies for x in study.verdicts()]
        judged = [x for x in verdicts if x.outcome != "not judged"]
        held = sum(x.outcome == "reproduced" for x in judged)
        summary = (
            "Numbers are mean ± standard deviation over seeds, on held-out "
            "text. A difference counts if it is larger than the sum of both "
            "standard deviations; a lower loss is better."
        )
        if judged:
            summary = (
                f"{held} of {len(judged)} findings were reproduced. {summary}"
            )
        head = [f"# Studies at the scale `{self.scale}`", self.setup, summary]
        return "\n\n".join([*head, *sections]) + "\n"

    def to_json(self) -> dict[str, Any]:
        """Returns the results as JSON values."""
        return {
            "scale": self.scale,
            "setup": self.setup,
            "studies": [study.to_json() for study in self.studies],
        }

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes `report.md`, `report.json` and the plots."""
        folder = pathlib.Path(folder)
        for study in self.studies:
            study.plot(folder / study.picture)
        text = json.dumps(self.to_json(), indent=2) + "\n"
        write_atomically(folder / RESULTS, text)
        write_atomically(folder / REPORT, self.table())


def _number(score: str, mean: float, spread: float) -> str:
    if "loss" in score:
        return f"{mean:.3f} ± {spread:.3f}"
    return f"{100 * mean:.1f} ± {100 * spread:.1f} %"
