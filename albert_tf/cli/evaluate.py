"""Score a pretraining run on records it was not trained on."""

from __future__ import annotations

import json

from absl import flags

_RUN = flags.DEFINE_string("run", None, "Folder of the run.", required=True)
_INPUT = flags.DEFINE_string(
    "input", None, "Folder of records, or globs.", required=True
)
_SPLIT = flags.DEFINE_enum(
    "split", "heldout", ["heldout", "train"], "Split of a folder."
)
_BATCH_SIZE = flags.DEFINE_integer("eval_batch_size", 64, "Examples a batch.")
_MAX_STEPS = flags.DEFINE_integer(
    "max_eval_steps", 0, "Most batches; 0 for all."
)
_JSON = flags.DEFINE_boolean("json", False, "Print JSON.")


def main() -> None:
    """Prints the scores of the run that the flags name."""
    # Imported here: help and wrong flags need not wait for TensorFlow.
    from albert_tf.tasks.evaluate_pretraining import evaluate_pretraining

    metrics = evaluate_pretraining(
        _RUN.value,
        _INPUT.value,
        split=_SPLIT.value,
        batch_size=_BATCH_SIZE.value,
        max_steps=_MAX_STEPS.value,
    )
    if _JSON.value:
        print(json.dumps(metrics))
        return
    for name, value in metrics.items():
        text = f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
        print(f"{name:22} {text:>10}")
