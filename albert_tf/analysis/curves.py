"""Curves of pretraining runs as a picture."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from albert_tf.errors import InputError
from albert_tf.training.metrics_log import read_metrics

# Okabe and Ito's colours, which colour-blind readers can tell apart.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_PANELS = {
    "loss": ("loss", "mlm_loss", "sop_loss"),
    "accuracy": ("mlm_accuracy", "sop_accuracy"),
}


def plot_runs(
    run_dirs: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    baselines: Mapping[str, float] | None = None,
) -> None:
    """Draws loss and accuracy of runs over steps and over wall time.

    Thin lines are training means, thick lines with dots held-out scores. Time
    in which a run was stopped is cut out.

    Args:
      run_dirs: folders of runs; with one, each metric has a colour, with
        several, each run.
      output: the picture to write; its ending says the format.
      baselines: label -> accuracy, drawn as dotted lines, such as what
        `albert_tf.tasks.evaluate_pretraining.baselines` returns.

    Raises:
      InputError: a folder holds no metrics, or matplotlib is not installed.
    """
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        raise InputError(
            "drawing needs matplotlib: pip install 'albert-tf[plots]'"
        ) from None
    runs = [(_label(folder), _read(folder)) for folder in run_dirs]
    figure, axes = pyplot.subplots(2, 2, figsize=(11, 7), sharey="row")
    for row, (panel, names) in zip(axes, _PANELS.items(), strict=True):
        for axis, unit in zip(row, ("steps", "minutes"), strict=True):
            _draw(axis, unit, runs, names)
            axis.set_xlabel(unit)
            axis.grid(alpha=0.3)
        if panel == "accuracy":
            _draw_baselines(row, baselines or {})
        row[0].set_ylabel(panel)
        if row[0].get_legend_handles_labels()[0]:
            row[0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(output, dpi=110)
    pyplot.close(figure)


def _draw_baselines(row, baselines) -> None:
    for label, value in baselines.items():
        for axis in row:
            axis.axhline(value, color="grey", ls=":", lw=1.5)
        row[0].annotate(
            label,
            (0.99, value),
            xycoords=("axes fraction", "data"),
            ha="right",
            va="bottom",
            color="dimgrey",
        )


def _label(folder) -> str:
    return os.path.basename(os.path.normpath(os.fspath(folder)))


def _read(folder):
    lines = read_metrics(folder)
    if not lines:
        raise InputError(f"{os.fspath(folder)}: no metrics there to draw")
    return _with_minutes(lines)


def _with_minutes(lines):
    """Adds "minutes" of running time, leaving out the time between runs."""
    seconds, last, rates = 0.0, None, []
    for line in lines:
        if last is not None:
            passed = line["time"] - last["time"]
            steps = line["step"] - last["step"]
            # A pause shows as a step rate far below the run's usual one.
            usual = sorted(rates)[len(rates) // 2] if rates else None
            if usual and steps and passed > 10 * steps / usual:
                passed = steps / usual
            elif steps and passed > 0:
                rates.append(steps / passed)
            seconds += max(passed, 0.0)
        last = line
        line["minutes"] = seconds / 60
    return lines


def _draw(axis, unit, runs, names) -> None:
    number = 0
    for run, lines in runs:
        for name in names:
            drawn = False
            for split, style in (
                ("train", {"lw": 1, "alpha": 0.7}),
                ("eval", {"lw": 2, "marker": "o", "ms": 4}),
            ):
                points = [
                    (line["step" if unit == "steps" else unit], value)
                    for line in lines
                    if line["split"] == split
                    and (value := line["values"].get(name)) is not None
                ]
                if not points:
                    continue
                label = name if len(runs) == 1 else f"{run}: {name}"
                if split == "eval":
                    label += ", held out"
                axis.plot(
                    *zip(*points, strict=True),
                    color=_COLOURS[number % len(_COLOURS)],
                    label=label,
                    **style,
                )
                drawn = True
            number += drawn
