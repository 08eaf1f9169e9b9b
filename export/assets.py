"""What a SavedModel tells of its tokenizer: the file, and the case."""

from __future__ import annotations

import os

import tensorflow as tf

from albert_tf.export.endpoint import Endpoint
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.wordpiece_tokenizer import WordPieceTokenizer


def attach_tokenizer(
    root: Endpoint, tokenizer: Tokenizer, path: str | os.PathLike[str]
) -> None:
    """Adds what the contract asks of a model: the file, and `do_lower_case`.

    Args:
      root: what is exported.
      tokenizer: the tokenizer.
      path: its file.
    """
    attach_vocabulary(root, tokenizer, path)
    # A variable, as in other encoders of the contract, but not one of
    # `variables`: no computation depends on it.
    root.do_lower_case = tf.Variable(
        tokenizer.settings["do_lower_case"], trainable=False
    )


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
