"""Plots of training runs."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.analysis.figures import COLOURS, import_pyplot, save_figure
from albert_tf.analysis.runs import RunLog, score_names
from albert_tf.errors import InputError
from albert_tf.objectives.registry import baselines_of

_LINES = ("-", "--", ":")
_STYLES = {
    "train": ("training mean", {"lw": 1, "alpha": 0.6}),
    "eval": ("held out", {"lw": 2, "marker": "o", "ms": 4}),
}
_HOUR = 3600


def plot_runs(
    runs: Sequence[RunLog],
    output: str | os.PathLike[str],
    baselines: Mapping[str, float] | None = None,
) -> None:
    """Draws losses and accuracies of runs over steps, wall time and tokens.

    Thin lines are training means, thick lines with dots held-out scores. Pauses
    of a run are left out. A single run has panels for losses of similar size
    and one for accuracies, and a colour for each metric; several runs have a
    panel for each metric, and a colour for each run.

    Args:
      runs: result of `read_runs`.
      output: image file to write; its suffix selects the format.
      baselines: label -> accuracy, drawn as dotted lines, such as the result of
        `Records.baselines`.
    """
    pyplot = import_pyplot()
    panels, units = _panels(runs), _units(runs)
    figure, axes = pyplot.subplots(
        len(panels),
        len(units),
        figsize=(4.4 * len(units), 0.6 + 2.8 * len(panels)),
        sharex="col",
        sharey="row",
        squeeze=False,
        layout="constrained",
    )
    for row, (title, metrics) in zip(axes, panels.items(), strict=True):
        for axis, (unit, (label, scale)) in zip(
            row, units.items(), strict=True
        ):
            _draw(axis, runs, metrics, unit, scale)
            axis.grid(alpha=0.3)
            # Shown in the lowest row only.
            axis.set_xlabel(label)
            axis.label_outer()
        _draw_baselines(row, metrics, baselines or {})
        row[0].set_ylabel(title)
        if len(runs) == 1:
            row[0].legend(
                handles=[_handle(_metric_style(runs, x), x) for x in metrics],
                fontsize=8,
            )
    _draw_legend(figure, runs)
    save_figure(figure, output)


def _panels(runs: Sequence[RunLog]) -> dict[str, list[str]]:
    """Returns the title and the metrics of each row of panels."""
    names = score_names(runs)
    if not names:
        raise InputError(
            f"{runs[0].name}: none of its metrics is a loss or an accuracy, so "
            "there is nothing to draw"
        )
    if len(runs) > 1:
        # The summands of `loss` would repeat what their accuracies show.
        summands = {
            f"{name.removesuffix('accuracy')}loss"
            for name in names
            if name.endswith("_accuracy")
        }
        return {name: [name] for name in names if name not in summands}
    losses = [name for name in names if not name.endswith("accuracy")]
    accuracies = [name for name in names if name.endswith("accuracy")]
    panels = {
        ", ".join(group) if number else "loss": group
        for number, group in enumerate(_of_similar_size(runs[0], losses))
    }
    return panels | ({"accuracy": accuracies} if accuracies else {})


def _of_similar_size(run: RunLog, metrics: Sequence[str]) -> list[list[str]]:
    """Groups metrics whose largest values differ by a factor of up to 4."""
    largest = {
        name: max(
            (
                abs(value)
                for split in _STYLES
                for _, value in run.points(split, name, "step")
            ),
            default=0.0,
        )
        for name in metrics
    }
    groups: list[list[str]] = []
    for name in sorted(metrics, key=lambda name: -largest[name]):
        if groups and 4 * largest[name] >= largest[groups[-1][0]]:
            groups[-1].append(name)
        else:
            groups.append([name])
    return groups


def _units(runs: Sequence[RunLog]) -> dict[str, tuple[str, float]]:
    """Returns the label and the scale of each x axis by `LogLine` field."""
    hours = max(run.lines[-1].seconds for run in runs) > 3 * _HOUR
    units = {
        "step": ("steps", 1.0),
        "seconds": ("hours", _HOUR) if hours else ("minutes", 60.0),
    }
    if any(line.tokens for run in runs for line in run.lines):
        units["tokens"] = ("million tokens", 1e6)
    return units


def _run_style(number: int) -> dict[str, str]:
    line = _LINES[number // len(COLOURS) % len(_LINES)]
    return {"color": COLOURS[number % len(COLOURS)], "ls": line}


def _metric_style(runs, metric: str) -> dict[str, str]:
    """Returns the same style for `mlm_loss` and `mlm_accuracy`."""
    subjects = [name.rsplit("_", 1)[0] for name in score_names(runs)]
    subject = metric.rsplit("_", 1)[0]
    return _run_style(list(dict.fromkeys(subjects)).index(subject))


def _draw(axis, runs, metrics, unit, scale) -> None:
    for number, run in enumerate(runs):
        for metric in metrics:
            if len(runs) == 1:
                colour = _metric_style(runs, metric)
            else:
                colour = _run_style(number)
            for split, (_, style) in _STYLES.items():
                points = run.points(split, metric, unit)
                if len(points) == 1:
                    # A line with a single point is invisible.
                    style = {"marker": "o", "ms": 3, **style}
                if points:
                    x, y = zip(*points, strict=True)
                    axis.plot(
                        [value / scale for value in x],
                        y,
                        label=f"{run.name}: {metric}, {split}",
                        **colour,
                        **style,
                    )


def _draw_baselines(row, metrics, baselines) -> None:
    for metric in metrics:
        known = baselines_of(metric, baselines)
        if not known:
            continue
        for value, axis in itertools.product(known.values(), row):
            axis.axhline(value, color="grey", ls=":", lw=1.5)
        # They are close to each other.
        scores = (f"{label} {value:.1%}" for label, value in known.items())
        row[-1].annotate(
            f"{metric.split('_')[0]}: {', '.join(scores)}",
            (0.99, max(known.values())),
            xycoords=("axes fraction", "data"),
            ha="right",
            va="bottom",
            fontsize=8,
            color="dimgrey",
        )


def _draw_legend(figure, runs) -> None:
    """Explains lines and colours above the panels."""
    handles = [
        _handle({"color": "black", **style}, label)
        for label, style in _STYLES.values()
    ]
    if len(runs) > 1:
        named = [_handle(_run_style(i), run.name) for i, run in enumerate(runs)]
        handles = [*named, *handles]
    figure.legend(
        handles=handles,
        title=runs[0].name if len(runs) == 1 else None,
        loc="outside upper center",
        ncols=min(len(handles), 6),
        fontsize=8,
    )


def _handle(style: Mapping[str, Any], label: str):
    from matplotlib.lines import Line2D

    return Line2D([], [], **{"lw": 2, **style}, label=label)
