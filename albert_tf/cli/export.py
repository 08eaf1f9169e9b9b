"""Export checkpoints as SavedModels and in other formats; check exports.

Examples:
  albert export --kind=text_encoder --model=run --output=hub/text_encoder
  albert export --check=hub/text_encoder --model=run
"""

from __future__ import annotations

import dataclasses
import sys

from albert_tf.cli.flags import CommandFlags
from albert_tf.cli.task_flags import TaskModuleFlags
from albert_tf.errors import InputError
from albert_tf.exporting.config import ExportConfig, Kind
from albert_tf.settings import setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportFlags(TaskModuleFlags):
    """Flags for what to export, or which export to check."""

    model: str | None = setting(
        None,
        "A pretraining run or any checkpoint that `albert convert` takes, such "
        "as albert_tiny_en; with "
        "--kind=task, any model that `albert predict` takes. With --check, the "
        "model to compare the export with.",
    )
    output: str | None = setting(None, "Output folder.")
    check: str | None = setting(
        None,
        "Instead of exporting, check the export in this folder in a new "
        "process, and print a table. Exits with status 1 if a check fails.",
    )
    kind: Kind = setting(
        "encoder",
        "encoder: ids to vectors. preprocessor: strings to ids. text_encoder: "
        "strings to vectors. task: a fine-tuned model, strings to labels or "
        "answers. litert, onnx, openvino: a fine-tuned model or the encoder, "
        "from ids, for TensorFlow Lite, ONNX Runtime or OpenVINO.",
    )


CONFIGS = (ExportFlags, ExportConfig)


def main(flags: CommandFlags) -> None:
    """Exports a model, or checks an export."""
    given = flags.build(ExportFlags)
    if given.check is not None:
        if given.output is not None:
            raise InputError("--check writes nothing; remove --output")
        given.load_task_module()
        _check(given.check, given.model)
        return
    if given.model is None or given.output is None:
        missing = "model" if given.model is None else "output"
        raise InputError(f"--{missing} is required, except with --check")
    config = flags.build(ExportConfig)
    given.load_task_module()
    # Imported here, so that help and flag errors do not wait for TensorFlow.
    from albert_tf.exporting.export import export

    export(given.model, given.output, given.kind, config)
    print(f"wrote {given.output}")


def _check(folder: str, model: str | None) -> None:
    from albert_tf.exporting.check import check_export, checks_table

    checks = check_export(folder, model)
    print(checks_table(checks))
    failed = [x.name for x in checks if x.result == "FAIL"]
    if failed:
        sys.exit(
            f"albert: export: {folder}: {len(failed)} of {len(checks)} "
            f"checks failed: {', '.join(failed)}"
        )
