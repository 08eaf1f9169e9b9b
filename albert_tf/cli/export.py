"""Export checkpoints as SavedModels and in other formats; check exports.

Examples:
  albert export --kind=text_encoder --model=run --output=hub/text_encoder
  albert export --check=hub/text_encoder --model=run
"""

from __future__ import annotations

import dataclasses
import os
import sys

from albert_tf.cli.flags import CommandFlags
from albert_tf.errors import InputError
from albert_tf.exporting.config import ExportConfig
from albert_tf.finetuning.config import TaskModuleConfig
from albert_tf.settings import overriding, setting, settings_of


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckFlags(TaskModuleConfig):
    """Flags for which export to check."""

    model: str | None = overriding(ExportConfig, "model")
    output: str | None = overriding(ExportConfig, "output")
    check: str | None = setting(
        None,
        "Instead of exporting, check the export in this folder in a new "
        "process, and print a table. Exits with status 1 if a check fails.",
    )


CONFIGS = (CheckFlags, ExportConfig)


def main(flags: CommandFlags) -> None:
    """Exports a model, or checks an export."""
    given = flags.build(CheckFlags)
    if given.check is not None:
        if given.output is not None:
            raise InputError("--check writes nothing; remove --output")
        known = {x.name for x in settings_of(CheckFlags)}
        names = {x.flag for x in settings_of(ExportConfig) if x.flag}
        if others := sorted(flags.given(*(names - known))):
            raise InputError(
                f"--{others[0]} is for exporting; remove it, or --check"
            )
        given.load_task_module()
        _check(given.check, given.model)
        return
    if given.model is None or given.output is None:
        missing = "model" if given.model is None else "output"
        raise InputError(f"--{missing} is required, except with --check")
    config = flags.build(ExportConfig)
    from albert_tf.exporting.export import export

    export(config)
    print(f"wrote {os.fspath(config.output)}")


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
