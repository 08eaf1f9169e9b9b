"""Score pretraining runs on held-out records, or fine-tuned models.

`--run` scores one checkpoint of a pretraining run, `--checkpoints` all that
globs match, `--model` a fine-tuned model, or several as an ensemble.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

from absl import flags

from albert_tf.cli import source_flags
from albert_tf.data.examples.bad_examples import POLICIES
from albert_tf.errors import InputError
from albert_tf.path_patterns import split_patterns

flags.adopt_module_key_flags(source_flags)

_SPLITS_OF_RECORDS = ("heldout", "train")

_RUN = flags.DEFINE_string(
    "run", None, "Folder of a run, to score one checkpoint."
)
_CHECKPOINT = flags.DEFINE_string(
    "checkpoint", None, "Of --run: newest (the default), best, or a step."
)
_CHECKPOINTS = flags.DEFINE_string(
    "checkpoints",
    None,
    "Globs of checkpoints, of one or several runs, such as 'runs/*' or "
    "'run/checkpoints/step-*', separated by commas; gives a table.",
)
_MODEL = flags.DEFINE_string(
    "model",
    None,
    "Folder of a fine-tuning run, or of its model; several, separated by "
    "commas, predict together.",
)
_INPUT = flags.DEFINE_string(
    "input",
    None,
    "Records: a folder made by create-data, or globs. With --model: a file of "
    "its task, with labels.",
)
_DATA = flags.DEFINE_string(
    "data",
    None,
    "With --model, instead: folder of the task's files; see also --from.",
)
_SPLIT = flags.DEFINE_string(
    "split",
    None,
    "Split of a folder: heldout (the default) or train; with --data or --from, "
    "dev (the default), test or what else the task has.",
)
_ON_BAD_EXAMPLE = flags.DEFINE_enum(
    "on_bad_example",
    "stop",
    POLICIES,
    "With --model, examples that cannot be used: stop, or skip, count and list "
    "them.",
)
_BATCH_SIZE = flags.DEFINE_integer(
    "eval_batch_size", 64, "Examples of a batch."
)
_MAX_STEPS = flags.DEFINE_integer(
    "max_eval_steps", 0, "Most batches of an evaluation; 0 for all."
)
_JSON = flags.DEFINE_boolean(
    "json", False, "Print JSON, a line for each checkpoint."
)


def main() -> None:
    """Prints the scores of what the flags name."""
    sources = (_RUN, _CHECKPOINTS, _MODEL)
    if sum(flag.value is not None for flag in sources) != 1:
        raise InputError("give one of --run, --checkpoints and --model")
    if _MODEL.value is None:
        _score_checkpoints()
    else:
        _score_models()


def _score_models() -> None:
    """Prints the scores of fine-tuned models, and what an ensemble gains."""
    for flag in (_CHECKPOINT, _MAX_STEPS):
        if flag.present:
            raise InputError(f"--{flag.name} does not go with --model")
    by_name = source_flags.by_name()
    if (_INPUT.value is None) == (_DATA.value is None and not by_name):
        raise InputError("--model goes with --input, or --data or --from")
    # Imported here: help and wrong flags need not wait for TensorFlow.
    from albert_tf.tasks.finetuning.data import labelled_examples
    from albert_tf.tasks.finetuning.evaluation import score_predictions
    from albert_tf.tasks.finetuning.prediction import Predictor, description_of
    from albert_tf.tasks.finetuning.task_files import find_split

    models = split_patterns(_MODEL.value)
    description = description_of(models)
    source = _INPUT.value
    if source is None:
        source = find_split(
            description,
            _SPLIT.value or "dev",
            source=source_flags.FROM.value,
            data=_DATA.value,
        )
    elif _SPLIT.present:
        raise InputError("--split goes with --data or --from")
    examples = labelled_examples(description, [source], _ON_BAD_EXAMPLE.value)
    predictor = Predictor(models, batch_size=_BATCH_SIZE.value)
    scored = score_predictions(
        predictor.kind, list(predictor.windows(examples))
    )
    if _JSON.value:
        print(json.dumps(dict(scored.scores)))
    else:
        _print_scores(scored.scores)
    if scored.gain is not None:
        print(scored.gain, file=sys.stderr)
        if "null_threshold" in scored.scores:
            # No digit of it may be lost: a question has this very score.
            print(
                "answer so: albert predict "
                f"--null_threshold={scored.scores['null_threshold']!r}",
                file=sys.stderr,
            )


def _score_checkpoints() -> None:
    """Prints the scores of checkpoints of pretraining runs."""
    for flag in (source_flags.FROM, _DATA, _ON_BAD_EXAMPLE):
        if flag.present:
            raise InputError(f"--{flag.name} goes with --model")
    if _INPUT.value is None:
        raise InputError("give --input, the records to score on")
    split = _SPLIT.value or "heldout"
    if split not in _SPLITS_OF_RECORDS:
        raise InputError(
            f"--split={split} of records must be one of "
            f"{', '.join(_SPLITS_OF_RECORDS)}"
        )
    if _CHECKPOINTS.value is not None and _CHECKPOINT.value is not None:
        raise InputError(
            f"--checkpoint={_CHECKPOINT.value} goes with --run; with "
            "--checkpoints give a pattern that matches what you want"
        )
    # Imported here: help and wrong flags need not wait for TensorFlow.
    from albert_tf.cli.score_table import print_score_table
    from albert_tf.tasks.evaluate_pretraining import (
        NEWEST,
        baselines,
        evaluate_checkpoints,
        evaluate_pretraining,
    )
    from albert_tf.tasks.pretraining_records import records_manifest
    from albert_tf.training.checkpoint_patterns import match_checkpoints

    settings = {
        "split": split,
        "batch_size": _BATCH_SIZE.value,
        "max_steps": _MAX_STEPS.value,
    }
    if _CHECKPOINTS.value is not None:
        found = match_checkpoints(_CHECKPOINTS.value)
        scored = evaluate_checkpoints(found, _INPUT.value, **settings)
        if _JSON.value:
            for path, scores in scored:
                print(json.dumps({"checkpoint": path} | scores), flush=True)
        else:
            manifest = records_manifest(_INPUT.value, split)
            known = baselines(manifest, split)
            print_score_table(scored, known, max(map(len, found)))
        return
    scores = evaluate_pretraining(
        _RUN.value,
        _INPUT.value,
        checkpoint=_CHECKPOINT.value or NEWEST,
        **settings,
    )
    if _JSON.value:
        print(json.dumps(scores))
        return
    _print_scores(scores)


def _print_scores(scores: Mapping[str, float]) -> None:
    for name, value in scores.items():
        text = f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
        print(f"{name:22} {text:>10}")
