"""Curves of training runs as a picture."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.analysis.figures import COLOURS, import_pyplot, save_figure
from albert_tf.analysis.runs import RunLog, baseline_of, score_names
from albert_tf.errors import InputError

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

    Thin lines are training means, thick lines with dots held-out scores. Time
    in which a run was stopped is cut out. With one run there is a panel for
    losses and one for accuracies, and each metric has a colour; with several,
    each metric has a panel, and each run a colour.

    Args:
      runs: what `read_runs` returned.
      output: the picture to write; its ending says the format.
      baselines: label -> accuracy, drawn as dotted lines, such as what
        `Records.baselines` returns.

    Raises:
      InputError: there is nothing to draw, the picture cannot be written
        there, or matplotlib is not installed.
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
            # Only that of the lowest row is shown.
            axis.set_xlabel(label)
            axis.label_outer()
        _draw_baselines(row, metrics, baselines or {})
        row[0].set_ylabel(title)
        if len(runs) == 1:
            row[0].legend(
                handles=[_handle(_metric_look(runs, x), x) for x in metrics],
                fontsize=8,
            )
    _draw_key(figure, runs)
    save_figure(figure, output)


def _panels(runs: Sequence[RunLog]) -> dict[str, list[str]]:
    """Returns the metrics of each row of panels, by its title."""
    names = score_names(runs)
    if not names:
        raise InputError(
            f"{runs[0].name}: its metrics are no losses and no accuracies, so "
            "there is nothing to draw"
        )
    if len(runs) > 1:
        # The losses that `loss` is the sum of say what their accuracies say.
        parts = {
            f"{name.removesuffix('accuracy')}loss"
            for name in names
            if name.endswith("_accuracy")
        }
        return {name: [name] for name in names if name not in parts}
    kinds = {"loss": [], "accuracy": []}
    for name in names:
        kinds[name.split("_")[-1]].append(name)
    return {kind: metrics for kind, metrics in kinds.items() if metrics}


def _units(runs: Sequence[RunLog]) -> dict[str, tuple[str, float]]:
    """Returns field of a line -> label and scale of its axis."""
    hours = max(run.lines[-1].seconds for run in runs) > 3 * _HOUR
    units = {
        "step": ("steps", 1.0),
        "seconds": ("hours", _HOUR) if hours else ("minutes", 60.0),
    }
    if any(line.tokens for run in runs for line in run.lines):
        units["tokens"] = ("million tokens", 1e6)
    return units


def _look(number: int) -> dict[str, str]:
    line = _LINES[number // len(COLOURS) % len(_LINES)]
    return {"color": COLOURS[number % len(COLOURS)], "ls": line}


def _metric_look(runs, metric: str) -> dict[str, str]:
    """Returns one look for `mlm_loss` and `mlm_accuracy`."""
    subjects = [name.rsplit("_", 1)[0] for name in score_names(runs)]
    subject = metric.rsplit("_", 1)[0]
    return _look(list(dict.fromkeys(subjects)).index(subject))


def _draw(axis, runs, metrics, unit, scale) -> None:
    for number, run in enumerate(runs):
        for metric in metrics:
            one = len(runs) == 1
            look = _metric_look(runs, metric) if one else _look(number)
            for split, (_, style) in _STYLES.items():
                points = run.points(split, metric, unit)
                if len(points) == 1:
                    # A line of one point would not be seen.
                    style = {"marker": "o", "ms": 3, **style}
                if points:
                    x, y = zip(*points, strict=True)
                    axis.plot(
                        [value / scale for value in x],
                        y,
                        label=f"{run.name}: {metric}, {split}",
                        **look,
                        **style,
                    )


def _draw_baselines(row, metrics, baselines) -> None:
    known = {baseline_of(metric, baselines) for metric in metrics}
    for label, value in sorted(x for x in known if x is not None):
        for axis in row:
            axis.axhline(value, color="grey", ls=":", lw=1.5)
        row[-1].annotate(
            label.replace("_accuracy", "").replace("_", " "),
            (0.99, value),
            xycoords=("axes fraction", "data"),
            ha="right",
            va="bottom",
            fontsize=8,
            color="dimgrey",
        )


def _draw_key(figure, runs) -> None:
    """Says above the panels what thin and thick lines and colours are."""
    handles = [
        _handle({"color": "black", **style}, label)
        for label, style in _STYLES.values()
    ]
    if len(runs) > 1:
        named = [_handle(_look(i), run.name) for i, run in enumerate(runs)]
        handles = [*named, *handles]
    figure.legend(
        handles=handles,
        title=runs[0].name if len(runs) == 1 else None,
        loc="outside upper center",
        ncols=min(len(handles), 6),
        fontsize=8,
    )


def _handle(look: Mapping[str, Any], label: str):
    from matplotlib.lines import Line2D

    return Line2D([], [], **{"lw": 2, **look}, label=label)
