"""Files that a SavedModel carries for its user."""

from __future__ import annotations

import os

import tensorflow as tf

from albert_tf.export.endpoint import Endpoint
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.wordpiece_tokenizer import WordPieceTokenizer


def attach_vocabulary(
    root: Endpoint, tokenizer: Tokenizer, path: str | os.PathLike[str]
) -> None:
    """Adds the file of a vocabulary, under the contract's name for its kind.

    Args:
      root: what is exported.
      tokenizer: the tokenizer, which tells the kind.
      path: its file.
    """
    asset = tf.saved_model.Asset(os.fspath(path))
    if isinstance(tokenizer, WordPieceTokenizer):
        root.vocab_file = asset
    else:
        root.sp_model_file = asset
