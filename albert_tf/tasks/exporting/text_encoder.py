"""The encoder of a checkpoint with its tokenizer, as one SavedModel."""

from __future__ import annotations

import os

from albert_tf.errors import InputError
from albert_tf.export.text_encoder import export_text_encoder
from albert_tf.interop.opening import open_checkpoint
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.tasks.exporting.config import ExportConfig
from albert_tf.tasks.exporting.opened import tokenizer_of, vocabulary_file
from albert_tf.tasks.exporting.origins import origin_of


def export_checkpoint_text_encoder(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    config: ExportConfig,
) -> None:
    """Writes the encoder, without heads.

    Raises:
      InputError: it has no pooler, too; see `export_checkpoint`.
    """
    # Whose head it is does not matter.
    checkpoint = open_checkpoint(source, head="classifier_head")
    if "pooler" not in checkpoint.parts:
        raise InputError(
            f"{os.fspath(source)} has no pooler, so it gives no pooled_output: "
            "token classifiers, span labelers and masked language models lose "
            "it; export the checkpoint that they were made from"
        )
    tokenizer = tokenizer_of(checkpoint, source)
    with vocabulary_file(tokenizer) as file:
        export_text_encoder(
            AlbertEncoder.from_checkpoint(checkpoint),
            output,
            tokenizer_model=file,
            seq_length=config.seq_length,
            packed=config.packed is not False,
            overwrite=config.overwrite,
            origin=origin_of(source, config, checkpoint),
            **tokenizer.settings,
        )
