"""SavedModels of a checkpoint: a run's, or any other system's."""

from __future__ import annotations

import os
import pathlib
import tempfile

from albert_tf.errors import InputError
from albert_tf.export.encoder import export_encoder
from albert_tf.export.preprocessor import export_preprocessor
from albert_tf.interop.checkpoint import Checkpoint
from albert_tf.interop.opening import open_checkpoint
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrainer import AlbertPretrainer


def export_checkpoint(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    kind: str = "encoder",
    seq_length: int = 128,
    packed: bool = False,
    overwrite: bool = False,
) -> None:
    """Writes the encoder or the preprocessor of a checkpoint as a SavedModel.

    Args:
      source: a run's folder, or whatever `open_checkpoint` takes.
      output: the folder to make.
      kind: "encoder", with the pretraining heads that there are, or
        "preprocessor".
      seq_length: default length of a preprocessor's rows.
      packed: see `export_encoder`.
      overwrite: replace a SavedModel in `output`.

    Raises:
      InputError: the checkpoint cannot be opened or has no tokenizer, or
        `output` is taken.
    """
    checkpoint = open_checkpoint(source)
    tokenizer = checkpoint.tokenizer
    if tokenizer is None:
        raise InputError(
            f"{source} holds no tokenizer, which an export needs"
            f"{checkpoint.vocabulary.problem and ': '}"
            f"{checkpoint.vocabulary.problem}"
        )
    with tempfile.TemporaryDirectory() as folder:
        # A SavedModel takes its asset from a file.
        model_file = pathlib.Path(folder) / tokenizer.file_name
        model_file.write_bytes(tokenizer.model_bytes)
        if kind == "encoder":
            export_encoder(
                _model(checkpoint),
                output,
                tokenizer_model=model_file,
                do_lower_case=tokenizer.normalizer.do_lower_case,
                packed=packed,
                overwrite=overwrite,
            )
        else:
            export_preprocessor(
                model_file,
                output,
                seq_length=seq_length,
                overwrite=overwrite,
                **tokenizer.settings,
            )


def _model(checkpoint: Checkpoint) -> AlbertEncoder | AlbertPretrainer:
    """Loads the encoder, with the pretraining heads if there are any."""
    if "mlm_head" not in checkpoint.parts:
        return AlbertEncoder.from_checkpoint(checkpoint)
    return AlbertPretrainer.from_checkpoint(
        checkpoint, sop_head="sop_head" in checkpoint.parts
    )
