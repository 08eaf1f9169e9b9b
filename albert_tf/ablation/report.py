"""Report of ablation studies: tables, verdicts on claims and plots."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import os
import pathlib
from collections.abc import Sequence
from typing import Any

from albert_tf.ablation.plots import plot_study
from albert_tf.ablation.results import TITLES, StudyResult
from albert_tf.ablation.verdicts import ALPHA, MIN_SEEDS, Verdict, judge
from albert_tf.files import write_atomically
from albert_tf.tables import markdown_table

REPORT, RESULTS = "report.md", "report.json"

# Runs of this scale only show that everything works.
_NOT_JUDGED = "smoke"

_RULES = (
    "Numbers are mean ± standard deviation over seeds, on held-out text; a "
    "lower loss is better. Differences have their 95 % confidence interval in "
    "brackets. A finding is reproduced (or reversed) if Welch's t-test says so "
    "or, where two models are said to be equally good, two one-sided tests "
    "that they differ by less than the margin. The p-values are corrected for "
    f"all claims of this report by Holm's method, and at most {ALPHA:g}. "
    'Claims about the same runs are one claim. "Not reproduced" means that '
    f"nothing was shown. Nothing is judged with fewer than {MIN_SEEDS} seeds, "
    "or if a run diverged or is still on the plateau at which a model only "
    "knows how frequent words are."
)


@dataclasses.dataclass(frozen=True)
class Ablation:
    """Results of ablation studies.

    `setup` is a description of the base model and its training.
    """

    scale: str
    setup: str
    studies: tuple[StudyResult, ...]

    @functools.cached_property
    def verdicts(self) -> list[list[Verdict]]:
        """The verdicts on the claims of each study."""
        return judge(self.studies, judged=self.scale != _NOT_JUDGED)

    def table(self) -> str:
        """Returns the report as Markdown."""
        judged = [
            verdict
            for verdict in itertools.chain(*self.verdicts)
            if verdict.outcome != "not judged" and not verdict.repeats
        ]
        summary = _RULES
        if judged:
            held = sum(x.outcome == "reproduced" for x in judged)
            summary = (
                f"{held} of {len(judged)} findings were reproduced. {summary}"
            )
        head = [f"# Studies at the scale `{self.scale}`", self.setup, summary]
        sections = map(_section, self.studies, self.verdicts)
        return "\n\n".join([*head, *sections]) + "\n"

    def to_json(self) -> dict[str, Any]:
        """Returns the results as JSON values."""
        return {
            "scale": self.scale,
            "setup": self.setup,
            "studies": list(map(_study_json, self.studies, self.verdicts)),
        }

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes `report.md`, `report.json` and the plots."""
        folder = pathlib.Path(folder)
        for study in self.studies:
            plot_study(study, folder / _picture(study))
        text = json.dumps(self.to_json(), indent=2) + "\n"
        write_atomically(folder / RESULTS, text)
        write_atomically(folder / REPORT, self.table())


def _section(result: StudyResult, verdicts: Sequence[Verdict]) -> str:
    """Returns a study's section of the report."""
    lines = [f"## {result.heading}", "", _table(result), ""]
    for verdict in verdicts:
        counted = f" (counted in {verdict.repeats})" if verdict.repeats else ""
        lines.append(
            f"- {verdict.claim.text} **{verdict.outcome.capitalize()}**"
            f"{counted}: {verdict.evidence}."
        )
    return "\n".join(
        [*lines, "", f"![{result.study.title}]({_picture(result)})"]
    )


def _table(result: StudyResult) -> str:
    """Returns a Markdown table of the scores, beside the paper's."""
    names = [x for x in TITLES if result.has(x)]
    papers = list(
        dict.fromkeys(x for r in result.study.rows for x in r.paper_scores)
    )
    titles = [TITLES[x] for x in names]
    head = ["", "parameters", "steps", "TFLOPs", *titles]
    if papers:
        head += ["in the paper", *(f"{TITLES[x]} (paper)" for x in papers)]
    lines = []
    for row, described in zip(result.rows, result.study.rows, strict=True):
        cells = [row.name, f"{row.parameters:,}", f"{row.steps:,}"]
        cells.append(f"{row.flops / 1e12:,.1f}")
        cells += [row.number(x) for x in names]
        if papers:
            cells.append(described.paper)
            known = described.paper_scores
            cells += [f"{known[x]} %" if x in known else "" for x in papers]
        lines.append(cells)
    return markdown_table(head, lines)


def _picture(result: StudyResult) -> str:
    """Returns the file name of the plot."""
    return f"{result.study.name}.png"


def _study_json(
    result: StudyResult, verdicts: Sequence[Verdict]
) -> dict[str, Any]:
    return {
        "study": result.study.name,
        "table": result.study.table,
        "rows": [
            {
                **dataclasses.asdict(row),
                "paper": described.paper,
                "paper_scores": dict(described.paper_scores),
            }
            for row, described in zip(
                result.rows, result.study.rows, strict=True
            )
        ],
        "claims": [
            {
                "claim": verdict.claim.text,
                "outcome": verdict.outcome,
                "evidence": verdict.evidence,
                "repeats": verdict.repeats,
            }
            for verdict in verdicts
        ],
    }
