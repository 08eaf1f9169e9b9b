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
from albert_tf.cli.task_flags import SourceFlags
from albert_tf.errors import InputError
from albert_tf.files import split_patterns
from albert_tf.settings import setting

_RECORD_SPLITS = ("heldout", "train")


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluateFlags(SourceFlags):
    """Flags for what to evaluate, and on which data."""

    run: str | None = setting(
        None,
        "Folder of a pretraining run, or of a saved model with its head; or "
        "albert_tiny_en.",
        group="",
    )
    checkpoint: str | None = setting(
        None, "Checkpoint of --run: newest (the default), best, or a step."
    )
    checkpoints: str | None = setting(
        None,
        "Globs of checkpoints of one or several runs, separated by commas, "
        "such as 'runs/*' or 'run/checkpoints/step-*'. Prints a table.",
    )
    model: str | None = setting(
        None,
        "Folder of a fine-tuning run or of its model. Several, separated by "
        "commas, form an ensemble.",
    )
    input: str | None = setting(
        None,
        "Records: a folder written by create-data, or globs. With --model: a "
        "labelled file of its task.",
    )
    split: str | None = setting(
        None,
        "Split of the records: heldout (the default) or train. With --data or "
        "--from, dev (the default), test or another split of the task.",
    )
    eval_batch_size: int = setting(64, "Batch size.", bounds="[1, 1048576]")
    max_eval_steps: int = setting(
        0, "Maximum number of batches; 0 for no limit.", bounds="[0, inf)"
    )
    objective_module: str | None = setting(
        None,
        "Python file that defines the objective of a pretraining run; it is "
        "executed.",
    )
    json: bool = setting(False, "Print JSON, one line per checkpoint.")


CONFIGS = (EvaluateFlags,)


def main(flags: CommandFlags) -> None:
    """Prints the scores of checkpoints or models."""
    flags.choose("run", "checkpoints", "model")
    given = flags.build(EvaluateFlags)
    sources = (given.run, given.checkpoints, given.model)
    if sum(source is not None for source in sources) != 1:
        raise InputError("give one of --run, --checkpoints and --model")
    if given.model is not None:
        for name in flags.given(
            "checkpoint", "max_eval_steps", "objective_module"
        ):
            raise InputError(f"--{name} is not supported with --model")
        given.load_task_module()
        _score_models(split_patterns(given.model), given)
    else:
        for name in flags.given(
            "from", "data", "on_bad_example", "task_module"
        ):
            raise InputError(f"--{name} requires --model")
        _score_checkpoints(given)


def _score_models(models: Sequence[str], given: EvaluateFlags) -> None:
    """Prints the scores of fine-tuned models, and the gain of an ensemble."""
    has_source = given.data is not None or given.from_library
    if (given.input is None) != has_source:
        raise InputError("--model requires --input, or --data or --from")
    if given.input is not None and given.split is not None:
        raise InputError("--split requires --data or --from")
    # Imported here, so that help and flag errors do not wait for TensorFlow.
    from albert_tf.finetuning.data import find_split, labelled_examples
    from albert_tf.finetuning.evaluate import score_predictions
    from albert_tf.finetuning.predictor import Predictor, open_model_folders
    from albert_tf.finetuning.registry import make_task_type

    folders = open_model_folders(models)
    task_type = make_task_type(next(iter(folders.values())).task_config)
    source = given.input
    if source is None:
        source = find_split(
            task_type,
            given.split or "dev",
            source=given.source,
            data=given.data,
        )
    examples = labelled_examples(task_type, [source], given.on_bad_example)
    predictor = Predictor(
        models, batch_size=given.eval_batch_size, progress=True
    )
    scores, gain = score_predictions(
        predictor.task_type, [predictor.predict_examples(examples)]
    )
    if given.json:
        print(json.dumps(scores))
    else:
        _print_scores(scores)
    if gain:
        print(gain, file=sys.stderr)
        if "null_threshold" in scores:
            # With all digits, since the threshold is a question's score.
            print(
                "to answer with this threshold: albert predict "
                f"--null_threshold={scores['null_threshold']!r}",
                file=sys.stderr,
            )


def _score_checkpoints(given: EvaluateFlags) -> None:
    """Prints the scores of checkpoints of pretraining runs."""
    if given.input is None:
        raise InputError("--input is required: the records to evaluate on")
    split = given.split or "heldout"
    if split not in _RECORD_SPLITS:
        raise InputError(
            f"--split={split} of records must be one of "
            f"{', '.join(_RECORD_SPLITS)}"
        )
    if given.checkpoints is not None and given.checkpoint is not None:
        raise InputError(
            f"--checkpoint={given.checkpoint} requires --run; with "
            "--checkpoints, give a more specific glob"
        )
    # Imported here, so that help and flag errors do not wait for TensorFlow.
    from albert_tf.data.records import open_records
    from albert_tf.objectives.registry import load_objective_module
    from albert_tf.pretraining.evaluate import (
        NEWEST,
        check_runs,
        evaluate_checkpoints,
        evaluate_pretraining,
    )
    from albert_tf.training.checkpoint_files import match_checkpoints

    if given.objective_module is not None:
        load_objective_module(given.objective_module)
    settings = {
        "batch_size": given.eval_batch_size,
        "max_steps": given.max_eval_steps,
    }
    if given.checkpoints is not None:
        found = match_checkpoints(given.checkpoints)
        check_runs(found)
        records = open_records(given.input, split)
        scored = evaluate_checkpoints(found, records, **settings)
        if given.json:
            for path, scores in scored:
                print(json.dumps({"checkpoint": path} | scores), flush=True)
        else:
            width = max(map(len, found))
            print_score_table(scored, records.baselines(), width)
        return
    assert given.run is not None
    scores = evaluate_pretraining(
        given.run,
        given.input,
        checkpoint=given.checkpoint or NEWEST,
        split=split,
        **settings,
    )
    if given.json:
        print(json.dumps(scores))
    else:
        _print_scores(scores)


def _print_scores(scores: Mapping[str, float]) -> None:
    for name, value in scores.items():
        text = f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
        print(f"{name:22} {text:>10}")


def print_score_table(
    scored: Iterable[tuple[str, Mapping[str, float]]],
    baselines: Mapping[str, float],
    width: int,
) -> None:
    """Prints a row for each checkpoint as soon as it is evaluated.

    Args:
      scored: path and scores of each checkpoint, from `evaluate_checkpoints`.
      baselines: result of `Records.baselines`, printed in the first rows.
      width: width of the first column, in characters.
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
        if not metrics:
            metrics = [x for x in scores if x not in {"step", *baselines}]
            row("checkpoint", "step", metrics)
            for label, cells in baseline_rows(metrics, baselines).items():
                row(label, "", cells)
        row(path, f"{scores['step']:,}", [f"{scores[x]:.4f}" for x in metrics])
