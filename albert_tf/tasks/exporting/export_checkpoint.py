"""Exports of a checkpoint by the name of their kind."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping

from albert_tf.errors import InputError
from albert_tf.tasks.exporting.config import ExportConfig
from albert_tf.tasks.exporting.encoder import (
    export_checkpoint_encoder,
    export_checkpoint_preprocessor,
)
from albert_tf.tasks.exporting.litert import export_checkpoint_litert
from albert_tf.tasks.exporting.task import export_finetuned_task
from albert_tf.tasks.exporting.text_encoder import (
    export_checkpoint_text_encoder,
)

KINDS: Mapping[str, Callable] = {
    "encoder": export_checkpoint_encoder,
    "preprocessor": export_checkpoint_preprocessor,
    "text_encoder": export_checkpoint_text_encoder,
    "task": export_finetuned_task,
    "litert": export_checkpoint_litert,
}
# Setting -> the kinds that read it; all read the others.
_READ_BY = {
    "seq_length": ("preprocessor", "text_encoder", "task", "litert"),
    "packed": ("encoder", "text_encoder", "task"),
    "quantization": ("litert",),
    "calibration_input": ("litert",),
    "calibration_examples": ("litert",),
    "resizable": ("litert",),
}


def export_checkpoint(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    kind: str = "encoder",
    config: ExportConfig | None = None,
) -> None:
    """Writes a checkpoint as a program that needs no albert_tf.

    Args:
      source: a run's folder, or whatever `open_checkpoint` takes.
      output: the folder to make.
      kind: a key of `KINDS`.
      config: the settings; None for the defaults.

    Raises:
      InputError: there is no such kind, it has no use for a setting, the
        checkpoint cannot be opened or has no tokenizer, or `output` is taken.
    """
    if kind not in KINDS:
        raise InputError(f"kind={kind!r} must be one of {', '.join(KINDS)}")
    config = config or ExportConfig()
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        kinds = _READ_BY.get(field.name, KINDS)
        if value != field.default and kind not in kinds:
            raise InputError(
                f"{field.name}={value} has no meaning for kind={kind}, but for "
                f"{', '.join(kinds)}"
            )
    KINDS[kind](source, output, config)
