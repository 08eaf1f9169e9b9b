"""Plots of ablation studies."""

from __future__ import annotations

import os
import statistics
from typing import Any

from albert_tf.ablation.results import TITLES, StudyResult
from albert_tf.ablation.study import CHANCE, MLM, MLM_LOSS, NSP, SOP
from albert_tf.analysis.figures import COLOURS, import_pyplot, save_figure


def plot_study(result: StudyResult, output: str | os.PathLike[str]) -> None:
    """Plots the scores that claims are about, of all seeds, and the paper's."""
    pyplot = import_pyplot()
    scores = result.judged_scores
    papers = any(row.paper_scores for row in result.study.rows)
    width = len(scores) + int(papers)
    figure, axes = pyplot.subplots(
        1,
        width,
        figsize=(1.6 + 2.5 * width, 1.3 + 0.34 * len(result.rows)),
        squeeze=False,
        layout="constrained",
    )
    panels = list(axes[0])
    for score in scores:
        _draw_scores(panels.pop(0), result, score)
    if papers:
        _draw_paper(panels.pop(0), result)
    for number, axis in enumerate(axes[0]):
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
        if number:
            axis.set_yticklabels([])
    figure.suptitle(result.study.title, fontsize="medium")
    save_figure(figure, output)


def _draw_scores(axis: Any, result: StudyResult, score: str) -> None:
    factor, unit = (1, "") if score == MLM_LOSS else (100, ", %")
    for number, row in enumerate(result.rows):
        values = [factor * value for value in row.values(score)]
        axis.plot(
            values, [number] * len(values), "o", color=COLOURS[0], alpha=0.4
        )
        axis.plot(statistics.fmean(values), number, "|", ms=14, color="k")
    if score in (SOP, NSP):
        axis.axvline(100 * CHANCE, color="grey", ls=":")
    _label_rows(axis, result, f"{TITLES[score]}{unit}")


def _draw_paper(axis: Any, result: StudyResult) -> None:
    markers = {"average": "D", MLM: "o", NSP: "s", SOP: "^"}
    for score, marker in markers.items():
        points = [
            (row.paper_scores[score], number)
            for number, row in enumerate(result.study.rows)
            if score in row.paper_scores
        ]
        if points:
            axis.plot(
                *zip(*points, strict=True),
                marker,
                color=COLOURS[1],
                mfc="none",
                label=TITLES[score].removesuffix(" accuracy"),
            )
    _label_rows(axis, result, "the paper's, %")
    if len(axis.lines) > 1:
        axis.legend(fontsize="x-small", frameon=False)


def _label_rows(axis: Any, result: StudyResult, label: str) -> None:
    names = [row.name for row in result.rows]
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.margins(x=0.15)
    axis.set_xlabel(label)
