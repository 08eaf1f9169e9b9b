"""Numbers of architectures and of runs.

`analyze parameters [CONFIG...]` counts weights, `analyze memory [CONFIG...]`
says what a pretraining step needs on one device. `analyze run DIR...` prints
scores and draws curves of runs, which may still be going on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from albert_tf.analysis.activation_memory import training_memory
from albert_tf.analysis.parameters import count_parameters
from albert_tf.cli.flags import CommandFlags
from albert_tf.config import AlbertConfig, named_config
from albert_tf.errors import InputError
from albert_tf.files import check_not_input
from albert_tf.quiet_import import import_tensorflow
from albert_tf.settings import check_settings, setting
from albert_tf.training.config import Precision

_MEMORY, _RUN = "analyze memory", "analyze run"


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnalyzeFlags:
    """Flags of the analyses."""

    train_batch_size: int = setting(
        32, "Examples of a step.", group=_MEMORY, bounds="[1, inf)"
    )
    max_seq_length: int = setting(
        128, "Tokens of an example.", group=_MEMORY, bounds="[1, inf)"
    )
    max_predictions_per_seq: int = setting(
        20, "Masked positions of an example.", group=_MEMORY, bounds="[1, inf)"
    )
    gradient_accumulation_steps: int = setting(
        1, "Micro-batches of a step.", group=_MEMORY, bounds="[1, inf)"
    )
    rematerialize: bool = setting(
        False, "Keep only the input of each block.", group=_MEMORY
    )
    precision: Precision = setting(
        "float32", "Precision of the computation.", group=_MEMORY
    )
    output: str | None = setting(
        None,
        "Picture to draw (.png, .svg, .pdf): curves over steps, wall time and "
        "tokens.",
        group=_RUN,
    )
    input: str | None = setting(
        None,
        "Folder of records, to show what guessing would score on it as well.",
        group=_RUN,
    )

    def __post_init__(self) -> None:
        check_settings(self)


CONFIGS = (AnalyzeFlags,)
TAKES_ARGUMENTS = True


def main(flags: CommandFlags) -> None:
    """Runs one analysis."""
    given = flags.build(AnalyzeFlags)
    subject, *names = flags.arguments or ["nothing"]
    if subject == "parameters":
        _print_parameters(_configs(names))
    elif subject == "memory":
        _print_memory(_configs(names), given)
    elif subject == "run" and names:
        _print_runs(names, given)
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


def _print_runs(folders: Sequence[str], given: AnalyzeFlags) -> None:
    if given.output is not None:
        check_not_input(given.output, folders)
    # Imported here: matplotlib and TensorFlow take seconds.
    import_tensorflow()
    from albert_tf.analysis.curves import plot_runs
    from albert_tf.analysis.runs import read_runs, run_table
    from albert_tf.pretraining.records import open_records

    known = {}
    if given.input is not None:
        known = open_records(given.input, "heldout").baselines()
    runs = read_runs(folders)
    print(run_table(runs, known), flush=True)
    if given.output is not None:
        plot_runs(runs, given.output, known)
        print(f"wrote {given.output}")


def _print_memory(
    configs: Mapping[str, AlbertConfig], given: AnalyzeFlags
) -> None:
    print(
        f"{'MiB':20} {'weights':>8} {'moments':>8} {'gradients':>9} "
        f"{'activations':>11} {'working':>8} {'update':>8} {'total':>8}"
    )
    for name, config in configs.items():
        memory = training_memory(
            config,
            batch_size=given.train_batch_size,
            seq_length=given.max_seq_length,
            predictions=given.max_predictions_per_seq,
            precision=given.precision,
            rematerialize=given.rematerialize,
            accumulation=given.gradient_accumulation_steps,
        )
        columns = (
            (memory.weights, 8),
            (memory.slots, 8),
            (memory.gradients, 9),
            (memory.activations, 11),
            (memory.working, 8),
            (memory.update, 8),
            (memory.total, 8),
        )
        numbers = (f"{size / 2**20:{width},.0f}" for size, width in columns)
        print(f"{name:20} {' '.join(numbers)}")


def _print_parameters(configs: Mapping[str, AlbertConfig]) -> None:
    print(f"{'config':20} {'encoder':>12} {'MLM head':>10} {'SOP head':>9}")
    for name, config in configs.items():
        counts = count_parameters(config)
        print(
            f"{name:20} {counts.encoder:12,} {counts.mlm_head:10,} "
            f"{counts.sop_head:9,}"
        )
