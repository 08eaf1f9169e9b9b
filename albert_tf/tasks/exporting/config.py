"""What to export, and how."""

from __future__ import annotations

import dataclasses

from albert_tf.path_patterns import PathPatterns


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportConfig:
    """The settings of an export.

    A kind refuses settings that it has no use for: see `export_checkpoint`.

    Attributes:
      seq_length: tokens of a row: the default of a preprocessor, the longest of
        what takes strings. None is the kind's own choice.
      packed: whether padding is removed inside, for CPUs and GPUs but not for
        XLA. None is the kind's own choice: an encoder's is no.
      quantization: of a LiteRT model; see `export.litert.conversion.convert`.
      calibration_input: files of text for "int8": a text a line (two with a
        tab between them, where the task has pairs), or a task's own files.
      calibration_examples: how many of them are used, the first ones.
      resizable: whether a LiteRT model takes batches of any size and
        length.
      licence: of the weights, for the model card; empty to leave it open.
      overwrite: replace a finished export in the output folder.
    """

    seq_length: int | None = None
    packed: bool | None = None
    quantization: str = "none"
    calibration_input: PathPatterns | None = None
    calibration_examples: int = 100
    resizable: bool = False
    licence: str = ""
    overwrite: bool = False
