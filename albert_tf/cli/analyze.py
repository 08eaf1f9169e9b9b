"""Analyze: `analyze parameters`, or `analyze run DIR...` (scores and curves).

`run` takes one or several runs, which may still be going on.
"""

from __future__ import annotations

from collections.abc import Sequence

from absl import flags

from albert_tf.analysis.parameters import count_parameters
from albert_tf.cli.quiet_import import import_tensorflow
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError

_OUTPUT = flags.DEFINE_string(
    "output",
    "curves.png",
    "Picture that `analyze run` writes: curves over steps, wall time and "
    "tokens; '' for none.",
)
_INPUT = flags.DEFINE_string(
    "input",
    None,
    "Folder of records; `analyze run` shows what guessing would score on it.",
)


def main(arguments: Sequence[str]) -> None:
    """Runs one analysis."""
    subject, *rest = arguments or ["nothing"]
    if subject == "parameters":
        _print_parameters(rest or AlbertConfig.official_names())
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
        print(run_table(read_runs(rest), known), flush=True)
        if _OUTPUT.value:
            plot_runs(rest, _OUTPUT.value, known)
            print(f"wrote {_OUTPUT.value}")
    else:
        raise InputError(
            f"cannot analyze {subject!r}; use `albert analyze parameters "
            "[CONFIG...]` or `albert analyze run DIR...`"
        )


def _print_parameters(names: Sequence[str]) -> None:
    configs = {
        name: AlbertConfig.from_json(name)
        if name.endswith(".json")
        else AlbertConfig.from_official(name)
        for name in names
    }
    print(f"{'config':20} {'encoder':>12} {'MLM head':>10} {'SOP head':>9}")
    for name, config in configs.items():
        counts = count_parameters(config)
        print(
            f"{name:20} {counts.encoder:12,} {counts.mlm_head:10,} "
            f"{counts.sop_head:9,}"
        )
