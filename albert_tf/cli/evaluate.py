"""Evaluate pretraining runs on held-out records, or fine-tuned models.

--run evaluates one checkpoint of a pretraining run, --checkpoints all that
match globs, --model a fine-tuned model or an ensemble of several.

Examples:
  albert evaluate --run=run --input=data --checkpoint=best
  albert evaluate --model=reviews --input=reviews.csv
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterable, Mapping, Sequence

from albert_tf.cli.flags import CommandFlags
from albert_tf.errors import InputError
from albert_tf.evaluation.config import EvaluateConfig
from albert_tf.settings import setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluateFlags(EvaluateConfig):
    """Flags for what to evaluate, and on which data."""

    checkpoints: str | None = setting(
        None,
        "Globs of checkpoints of one or several runs, separated by commas, "
        "such as 'runs/*' or 'run/checkpoints/step-*'. Prints a table.",
    )
    json: bool = setting(False, "Print JSON, one line per checkpoint.")

    def _check_sources(self) -> None:
        if [self.run, self.checkpoints, self.model].count(None) != 2:
            raise InputError("give one of --run, --checkpoints and --model")
        if self.checkpoints is None:
            super()._check_sources()
            return
        self._check_records()
        if self.checkpoint is not None:
            raise InputError(
                f"--checkpoint={self.checkpoint} requires --run; with "
                "--checkpoints, give a more specific glob"
            )


CONFIGS = (EvaluateFlags,)


def main(flags: CommandFlags) -> None:
    """Prints the scores of checkpoints or models."""
    flags.choose("run", "checkpoints", "model")
    given = flags.build(EvaluateFlags)
    if given.checkpoints is not None:
        _score_checkpoints(given, given.checkpoints)
        return
    from albert_tf.evaluation.evaluate import evaluate_with_gain
    from albert_tf.finetuning.results import score_lines, with_null

    scores, gain = evaluate_with_gain(given)
    if given.json:
        print(json.dumps(with_null(scores)))
    else:
        print(*score_lines(scores), sep="\n")
    if gain:
        print(gain, file=sys.stderr)
        if "null_threshold" in scores:
            # With all digits, since the threshold is a question's score.
            print(
                "to answer with this threshold: albert predict "
                f"--null_threshold={scores['null_threshold']!r}",
                file=sys.stderr,
            )


def _score_checkpoints(given: EvaluateFlags, checkpoints: str) -> None:
    """Prints the scores of checkpoints of pretraining runs."""
    from albert_tf.data.records import open_records
    from albert_tf.finetuning.results import with_null
    from albert_tf.objectives.registry import load_objective_module
    from albert_tf.pretraining.evaluate import check_runs, evaluate_checkpoints
    from albert_tf.training.checkpoint_files import match_checkpoints

    if given.objective_module is not None:
        load_objective_module(given.objective_module)
    found = match_checkpoints(checkpoints)
    check_runs(found)
    assert given.input is not None  # The config has checked it.
    records = open_records(given.input, given.split or "heldout")
    scored = evaluate_checkpoints(
        found,
        records,
        batch_size=given.eval_batch_size,
        max_steps=given.max_eval_steps,
    )
    if given.json:
        for path, scores in scored:
            line = {"checkpoint": path} | with_null(scores)
            print(json.dumps(line), flush=True)
    else:
        width = max(map(len, found))
        print_score_table(scored, records.baselines(), width)


def print_score_table(
    scored: Iterable[tuple[str, Mapping[str, float]]],
    baselines: Mapping[str, float],
    width: int,
) -> None:
    """Prints a row for each checkpoint as soon as it is evaluated.

    Runs of different objectives have different metrics: a new heading, with the
    baselines below, follows where they change.

    Args:
      scored: path and scores of each checkpoint, from `evaluate_checkpoints`.
      baselines: result of `Records.baselines`.
      width: width of the paths, in characters.
    """
    from albert_tf.analysis.runs import baseline_rows

    metrics: list[str] = []

    def row(name: str, step: str, cells: Sequence[str]) -> None:
        cells = [
            f"{cell:>{max(len(metric), 6)}}"
            for metric, cell in zip(metrics, cells, strict=True)
        ]
        line = f"{name:{width}}  {step:>9}  {'  '.join(cells)}"
        print(line.rstrip(), flush=True)

    for path, scores in scored:
        found = [x for x in scores if x not in {"step", *baselines}]
        if found != metrics:
            metrics = found
            known = baseline_rows(metrics, baselines)
            width = max(width, *map(len, known), len("checkpoint"))
            row("checkpoint", "step", metrics)
            for label, cells in known.items():
                row(label, "", cells)
        row(path, f"{scores['step']:,}", [f"{scores[x]:.4f}" for x in metrics])
