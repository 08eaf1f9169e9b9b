"""The scores of runs as a table of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from albert_tf.analysis.run_log import RunLog
from albert_tf.training.best_checkpoint import lower_is_better

_SCORES = ("loss", "accuracy")


def score_names(runs: Sequence[RunLog]) -> list[str]:
    """Returns the names of losses and accuracies, in the order of the logs."""
    names = [name for run in runs for line in run.lines for name in line.values]
    return [
        name for name in dict.fromkeys(names) if name.split("_")[-1] in _SCORES
    ]


def baseline_of(
    metric: str, baselines: Mapping[str, float]
) -> tuple[str, float] | None:
    """Returns label and value of the baseline of an accuracy, if there is one.

    `mlm_unigram_accuracy` is the one of `mlm_accuracy`, `sop_chance` of
    `sop_accuracy`.
    """
    if not metric.endswith("accuracy"):
        return None
    for label, value in baselines.items():
        if label.split("_")[0] == metric.split("_")[0]:
            return label, value
    return None


def run_table(
    runs: Sequence[RunLog], baselines: Mapping[str, float] | None = None
) -> str:
    """Returns lines with the newest and the best scores of runs.

    Args:
      runs: what `read_runs` returned.
      baselines: label -> accuracy of what has learned nothing.

    Returns:
      A row for the newest held-out scores of each run, for the best of each
      metric, wherever in the run it was, and for the newest training means.
    """
    metrics = score_names(runs)
    rows = [
        ["run", "scores", "step", "minutes", "tokens", "tokens/s", *metrics]
    ]
    for run in runs:
        for split, label in (("eval", "held out"), ("train", "train")):
            scores = [
                [value for _, value in run.points(split, metric, "step")]
                for metric in metrics
            ]
            if not any(scores):
                continue
            rows.append([run.name, label, *_progress(run, split)])
            rows[-1] += [_score(x[-1] if x else None) for x in scores]
            if split == "eval":
                best = [
                    _best(metric, x)
                    for metric, x in zip(metrics, scores, strict=True)
                ]
                rows.append([run.name, "held out, best", "", "", "", ""])
                rows[-1] += [_score(x) for x in best]
    found = [baseline_of(metric, baselines or {}) for metric in metrics]
    if any(found):
        rows.append(["guessing", "", "", "", "", ""])
        rows[-1] += [_score(x[1] if x else None) for x in found]
    return _aligned(rows, left=2)


def _progress(run: RunLog, split: str) -> list[str]:
    line = [line for line in run.lines if line.split == split][-1]
    step = f"{line.step:,}"
    if run.total_steps:
        step += f"/{run.total_steps:,}"
    tokens = f"{line.tokens / 1e6:,.1f} M" if line.tokens else ""
    rates = [
        value for _, value in run.points("train", "tokens_per_second", "step")
    ]
    rate = f"{sorted(rates)[len(rates) // 2]:,.0f}" if rates else ""
    return [step, f"{line.seconds / 60:,.1f}", tokens, rate]


def _best(metric: str, values: Sequence[float]) -> float | None:
    if not values:
        return None
    return min(values) if lower_is_better(metric) else max(values)


def _score(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _aligned(rows: Sequence[Sequence[str]], left: int) -> str:
    """Returns the rows with columns of one width, the first ones flush left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
