"""Write TF-Hub SavedModels from a run or any other checkpoint; check them."""

from __future__ import annotations

import sys

from absl import flags

from albert_tf.errors import InputError

_MODEL = flags.DEFINE_string(
    "model",
    None,
    "A pretraining run, or what `albert convert` takes; for --kind=task what "
    "`albert predict` takes. With --check, what to compare the export with.",
)
_OUTPUT = flags.DEFINE_string(
    "output", None, "Folder of the SavedModel to make."
)
_CHECK = flags.DEFINE_string(
    "check",
    None,
    "Instead of writing: verify the export in this folder, in a fresh process, "
    "and print a table. The status is 1 if a check fails.",
)
_KIND = flags.DEFINE_enum(
    "kind",
    "encoder",
    ["encoder", "preprocessor", "text_encoder", "task", "litert"],
    "encoder: ids in, vectors out. preprocessor: strings in, ids out. "
    "text_encoder: strings in, vectors out. task: a fine-tuned model, strings "
    "in, labels or answers out. litert: a fine-tuned model, or the encoder, "
    "ids in, for phones and small machines.",
)
_SEQ_LENGTH = flags.DEFINE_integer(
    "seq_length",
    None,
    "Tokens of a row. Defaults: 128 for a preprocessor and a LiteRT encoder; a "
    "text encoder's what the model takes; a task's what it was trained with.",
    lower_bound=1,
)
_PACKED = flags.DEFINE_boolean(
    "packed",
    None,
    "Remove padding inside: for CPUs and GPUs, not for XLA. Defaults: no for "
    "an encoder, yes for what takes strings.",
)
_QUANTIZATION = flags.DEFINE_enum(
    "quantization",
    "none",
    ["none", "float16", "dynamic", "int8"],
    "Of a LiteRT model. dynamic: weights in int8. int8: activations, too, with "
    "ranges found by --calibration_input.",
)
_CALIBRATION_INPUT = flags.DEFINE_string(
    "calibration_input",
    None,
    "Text for --quantization=int8, like that of the application: files or "
    "patterns with commas between them. A text a line, two with a tab between "
    "them for a task with pairs; for questions the task's own files.",
)
_CALIBRATION_EXAMPLES = flags.DEFINE_integer(
    "calibration_examples",
    100,
    "How many examples of --calibration_input are used, the first ones.",
    lower_bound=1,
)
_RESIZABLE = flags.DEFINE_boolean(
    "resizable",
    False,
    "Let a LiteRT model take batches of any size and length.",
)
_LICENCE = flags.DEFINE_string(
    "licence", "", "Of the weights, for the model card: Apache-2.0, ..."
)
_OVERWRITE = flags.DEFINE_boolean(
    "overwrite", False, "Replace a SavedModel in the output folder."
)


def main() -> None:
    """Writes the SavedModel that the flags describe, or checks one."""
    if _CHECK.value is not None:
        _check()
    else:
        _export()


def _check() -> None:
    if _OUTPUT.value is not None:
        raise InputError("--check writes nothing; leave --output out")
    from albert_tf.export.checks.check_export import (
        check_export,
        findings_table,
        read_export,
    )

    manifest = read_export(_CHECK.value)
    expected = None
    if _MODEL.value is not None:
        from albert_tf.tasks.exporting.expectations import expected_of

        expected = expected_of(_MODEL.value, manifest)
    findings = check_export(_CHECK.value, expected)
    print(findings_table(findings))
    failed = [x.name for x in findings if x.result == "FAIL"]
    if failed:
        sys.exit(
            f"albert: export: {_CHECK.value}: {len(failed)} of {len(findings)} "
            f"checks failed: {', '.join(failed)}"
        )


def _export() -> None:
    for flag in (_MODEL, _OUTPUT):
        if flag.value is None:
            raise InputError(f"--{flag.name} is required, but with --check")
    # Imported here: help and wrong flags need not wait for TensorFlow.
    from albert_tf.tasks.exporting.config import ExportConfig
    from albert_tf.tasks.exporting.export_checkpoint import export_checkpoint

    export_checkpoint(
        _MODEL.value,
        _OUTPUT.value,
        _KIND.value,
        ExportConfig(
            seq_length=_SEQ_LENGTH.value,
            packed=_PACKED.value,
            quantization=_QUANTIZATION.value,
            calibration_input=_CALIBRATION_INPUT.value,
            calibration_examples=_CALIBRATION_EXAMPLES.value,
            resizable=_RESIZABLE.value,
            licence=_LICENCE.value,
            overwrite=_OVERWRITE.value,
        ),
    )
    print(f"wrote {_OUTPUT.value}")
