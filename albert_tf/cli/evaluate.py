"""Score checkpoints of pretraining runs on held-out records.

`--run` scores one checkpoint of a run, `--checkpoints` all that globs match.
"""

from __future__ import annotations

import json

from absl import flags

from albert_tf.errors import InputError

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
_INPUT = flags.DEFINE_string(
    "input",
    None,
    "Records: a folder made by create-data, or globs; required.",
    required=True,
)
_SPLIT = flags.DEFINE_enum(
    "split", "heldout", ["heldout", "train"], "Split of a folder."
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
    """Prints the scores of the checkpoints that the flags name."""
    if (_RUN.value is None) == (_CHECKPOINTS.value is None):
        raise InputError("give either --run or --checkpoints")
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
        "split": _SPLIT.value,
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
            manifest = records_manifest(_INPUT.value, _SPLIT.value)
            known = baselines(manifest, _SPLIT.value)
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
    for name, value in scores.items():
        text = f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
        print(f"{name:22} {text:>10}")
