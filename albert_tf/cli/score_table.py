"""The scores of checkpoints as a table that grows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from albert_tf.analysis.run_table import baseline_of


def print_score_table(
    scored: Iterable[tuple[str, Mapping[str, float]]],
    baselines: Mapping[str, float],
    width: int,
) -> None:
    """Prints a row for each checkpoint as soon as it is scored.

    Args:
      scored: what `evaluate_checkpoints` yields.
      baselines: what guessing scores, by name; a row of its own.
      width: characters of the longest path.
    """
    metrics: list[str] = []

    def row(name: str, step: str, cells: Sequence[str]) -> None:
        cells = [
            f"{cell:>{max(len(metric), 6)}}"
            for metric, cell in zip(metrics, cells, strict=True)
        ]
        line = f"{name:{width}}  {step:>9}  {'  '.join(cells)}"
        print(line.rstrip(), flush=True)

    for path, scores in scored:
        if not metrics:
            metrics = [x for x in scores if x not in {"step", *baselines}]
            row("checkpoint", "step", metrics)
            known = [baseline_of(metric, baselines) for metric in metrics]
            if any(known):
                row("guessing", "", [f"{x[1]:.4f}" if x else "" for x in known])
        row(path, f"{scores['step']:,}", [f"{scores[x]:.4f}" for x in metrics])
