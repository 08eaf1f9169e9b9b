"""Write TF-Hub SavedModels from a run or any other checkpoint."""

from __future__ import annotations

from absl import flags

_MODEL = flags.DEFINE_string(
    "model",
    None,
    "A pretraining run, or what `albert convert` takes.",
    required=True,
)
_OUTPUT = flags.DEFINE_string(
    "output", None, "Folder of the SavedModel to make.", required=True
)
_KIND = flags.DEFINE_enum(
    "kind",
    "encoder",
    ["encoder", "preprocessor"],
    "encoder: ids in, vectors out. preprocessor: strings in, ids out.",
)
_SEQ_LENGTH = flags.DEFINE_integer(
    "seq_length", 128, "Default length of a preprocessor's rows."
)
_PACKED = flags.DEFINE_boolean(
    "packed",
    False,
    "Encoder that removes padding inside: for CPUs and GPUs, not for XLA.",
)
_OVERWRITE = flags.DEFINE_boolean(
    "overwrite", False, "Replace a SavedModel in the output folder."
)


def main() -> None:
    """Writes the SavedModel that the flags describe."""
    # Imported here: help and wrong flags need not wait for TensorFlow.
    from albert_tf.tasks.export_checkpoint import export_checkpoint

    export_checkpoint(
        _MODEL.value,
        _OUTPUT.value,
        kind=_KIND.value,
        seq_length=_SEQ_LENGTH.value,
        packed=_PACKED.value,
        overwrite=_OVERWRITE.value,
    )
    print(f"wrote {_OUTPUT.value}")
