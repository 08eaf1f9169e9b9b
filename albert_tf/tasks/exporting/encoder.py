"""The encoder and the preprocessor of a checkpoint, as SavedModels."""

from __future__ import annotations

import os

from albert_tf.export.encoder import export_encoder
from albert_tf.export.preprocessor import export_preprocessor
from albert_tf.interop.checkpoint import Checkpoint
from albert_tf.interop.opening import open_checkpoint
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.tasks.exporting.config import ExportConfig
from albert_tf.tasks.exporting.opened import tokenizer_of, vocabulary_file
from albert_tf.tasks.exporting.origins import origin_of

_DEFAULT_LENGTH = 128


def export_checkpoint_encoder(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    config: ExportConfig,
) -> None:
    """Writes the encoder, with the pretraining heads that there are."""
    checkpoint = open_checkpoint(source)
    tokenizer = tokenizer_of(checkpoint, source)
    with vocabulary_file(tokenizer) as file:
        export_encoder(
            pretraining_model(checkpoint),
            output,
            tokenizer_model=file,
            do_lower_case=tokenizer.normalizer.do_lower_case,
            packed=bool(config.packed),
            overwrite=config.overwrite,
            origin=origin_of(source, config, checkpoint),
        )


def export_checkpoint_preprocessor(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    config: ExportConfig,
) -> None:
    """Writes the preprocessor."""
    checkpoint = open_checkpoint(source)
    tokenizer = tokenizer_of(checkpoint, source)
    with vocabulary_file(tokenizer) as file:
        export_preprocessor(
            file,
            output,
            seq_length=config.seq_length or _DEFAULT_LENGTH,
            overwrite=config.overwrite,
            origin=origin_of(source, config, checkpoint),
            **tokenizer.settings,
        )


def pretraining_model(
    checkpoint: Checkpoint,
) -> AlbertEncoder | AlbertPretrainer:
    """Loads the encoder, with the pretraining heads if there are any."""
    if "mlm_head" not in checkpoint.parts:
        return AlbertEncoder.from_checkpoint(checkpoint)
    return AlbertPretrainer.from_checkpoint(
        checkpoint, sop_head="sop_head" in checkpoint.parts
    )
