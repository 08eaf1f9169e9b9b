"""Numbers of architectures and of runs.

`analyze parameters [CONFIG...]` counts weights, `analyze memory [CONFIG...]`
says what a pretraining step needs on one device. `analyze run DIR...` prints
scores and draws curves of runs, which may still be going on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from absl import flags

from albert_tf.analysis.activation_memory import COMPUTE_BYTES, training_memory
from albert_tf.analysis.parameters import count_parameters
from albert_tf.cli.architecture import named_config
from albert_tf.cli.quiet_import import import_tensorflow
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError

_OUTPUT = flags.DEFINE_string(
    "output",
    "curves.png",
    "Picture of the curves over steps, wall time and tokens; '' for none.",
)
_INPUT = flags.DEFINE_string(
    "input",
    None,
    "Folder of records; what guessing would score on it is shown, too.",
)
_TRAIN_BATCH_SIZE = flags.DEFINE_integer(
    "train_batch_size", 32, "Examples of a step.", 1
)
_MAX_SEQ_LENGTH = flags.DEFINE_integer(
    "max_seq_length", 128, "Tokens of an example.", 1
)
_MAX_PREDICTIONS = flags.DEFINE_integer(
    "max_predictions_per_seq", 20, "Masked positions of an example.", 1
)
_ACCUMULATION = flags.DEFINE_integer(
    "gradient_accumulation_steps", 1, "Micro-batches of a step.", 1
)
_REMATERIALIZE = flags.DEFINE_boolean(
    "rematerialize", False, "Keep of each block its input only."
)
_PRECISION = flags.DEFINE_enum(
    "precision", "float32", list(COMPUTE_BYTES), "Precision of the computation."
)

FLAG_GROUPS = {
    "analyze memory": (
        *("train_batch_size", "max_seq_length", "max_predictions_per_seq"),
        *("gradient_accumulation_steps", "rematerialize", "precision"),
    ),
    "analyze run": ("output", "input"),
}


def main(arguments: Sequence[str]) -> None:
    """Runs one analysis."""
    subject, *rest = arguments or ["nothing"]
    if subject == "parameters":
        _print_parameters(_configs(rest))
    elif subject == "memory":
        _print_memory(_configs(rest))
    elif subject == "run" and rest:
        # Imported here: matplotlib and TensorFlow take seconds.
        import_tensorflow()
        from albert_tf.analysis.curves import plot_runs
        from albert_tf.analysis.run_log import read_runs
        from albert_tf.analysis.run_table import run_table
        from albert_tf.tasks.evaluate_pretraining import baselines
        from albert_tf.tasks.pretraining_records import records_manifest

        known = {}
        if _INPUT.value is not None:
            known = baselines(records_manifest(_INPUT.value, "heldout"))
        runs = read_runs(rest)
        print(run_table(runs, known), flush=True)
        if _OUTPUT.value:
            plot_runs(runs, _OUTPUT.value, known)
            print(f"wrote {_OUTPUT.value}")
    else:
        raise InputError(
            f"cannot analyze {subject!r}; use `albert analyze parameters "
            "[CONFIG...]`, `albert analyze memory [CONFIG...]` or `albert "
            "analyze run DIR...`"
        )


def _configs(names: Sequence[str]) -> dict[str, AlbertConfig]:
    """Returns the named architectures; all official ones if none is named."""
    return {
        name: named_config(name)
        for name in names or AlbertConfig.official_names()
    }


def _print_memory(configs: Mapping[str, AlbertConfig]) -> None:
    print(
        f"{'MiB':20} {'weights':>8} {'moments':>8} {'gradients':>9} "
        f"{'activations':>11} {'working':>8} {'update':>8} {'total':>8}"
    )
    for name, config in configs.items():
        memory = training_memory(
            config,
            batch_size=_TRAIN_BATCH_SIZE.value,
            seq_length=_MAX_SEQ_LENGTH.value,
            predictions=_MAX_PREDICTIONS.value,
            precision=_PRECISION.value,
            rematerialize=_REMATERIALIZE.value,
            accumulation=_ACCUMULATION.value,
        )
        parts = (
            (memory.weights, 8),
            (memory.slots, 8),
            (memory.gradients, 9),
            (memory.activations, 11),
            (memory.working, 8),
            (memory.update, 8),
            (memory.total, 8),
        )
        numbers = (f"{part / 2**20:{width},.0f}" for part, width in parts)
        print(f"{name:20} {' '.join(numbers)}")


def _print_parameters(configs: Mapping[str, AlbertConfig]) -> None:
    print(f"{'config':20} {'encoder':>12} {'MLM head':>10} {'SOP head':>9}")
    for name, config in configs.items():
        counts = count_parameters(config)
        print(
            f"{name:20} {counts.encoder:12,} {counts.mlm_head:10,} "
            f"{counts.sop_head:9,}"
        )
