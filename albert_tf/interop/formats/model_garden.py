"""Model Garden's TF2 checkpoints (its SavedModels are in `saved_model`)."""

from __future__ import annotations

import os
import pathlib
from typing import Any

from albert_tf.config import AlbertConfig
from albert_tf.interop.accounting import account_for
from albert_tf.interop.checkpoint import Checkpoint
from albert_tf.interop.files.tensor_file import TensorFile
from albert_tf.interop.formats.google import find_config
from albert_tf.interop.vocabularies import folder_vocabulary


def is_model_garden(file: TensorFile) -> bool:
    """Whether the names are those of Model Garden's encoder."""
    return any("transformer/self_attention/" in name for name in file.shapes)


def open_model_garden(
    prefix: str | os.PathLike[str],
    file: TensorFile,
    *,
    config: AlbertConfig | None = None,
    overrides: dict[str, Any] | None = None,
) -> Checkpoint:
    """Opens a checkpoint with a config of Google's beside it.

    Args:
      prefix: its path without ".index".
      file: its tensors.
      config: the architecture, where no file is beside.
      overrides: fields of the config to replace.

    Raises:
      InputError: see `account_for`; or there is no config.
    """
    prefix = pathlib.Path(prefix)
    if config is None:
        config = AlbertConfig.from_json(find_config(prefix.parent, prefix))
    config = config.replace(**overrides or {})
    account = account_for("model_garden", file, config)
    vocabulary = folder_vocabulary(prefix.parent, "google")
    return Checkpoint(
        config=account.config,
        parts=account.parts,
        arrays=account.arrays,
        vocabulary=vocabulary,
        source=str(prefix),
        format="Model Garden TF2",
        left=account.left,
    )
