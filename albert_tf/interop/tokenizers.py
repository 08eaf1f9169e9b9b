"""Loading the tokenizer of a checkpoint."""

from __future__ import annotations

import os
from typing import Any

from albert_tf.errors import InputError
from albert_tf.interop.hubs import resolve
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.text import tokenizer_files
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.sentencepiece_tokenizer import (
    AlbertTokenizer as AlbertTokenizer,  # public, with its loader
)

_FILES = (".model", ".spm", ".txt")  # of tokenizers


def load_tokenizer(
    path: str | os.PathLike[str],
    revision: str | None = None,
    **settings: Any,
) -> Tokenizer:
    """Loads the tokenizer of a checkpoint of any system.

    Whether special tokens in a text, such as `[MASK]`, become their ids is a
    setting: yes for a checkpoint of Hugging Face, as there, and no otherwise,
    as in the original. `match_special_tokens=True` sets it.

    Args:
      path: what `from_pretrained` of the models takes; or a folder with a
        tokenizer's files only, such as that of a run or of records; or a
        SentencePiece model or `vocab.txt`.
      revision: a branch, tag or commit of a repository on the Hugging Face
        hub.
      **settings: Settings that replace the checkpoint's: arguments of
        `AlbertTokenizer`, or for a `vocab.txt` of `WordPieceTokenizer`.

    Returns:
      An `AlbertTokenizer`, or for a `vocab.txt` a `WordPieceTokenizer`.

    Raises:
      InputError: there is no tokenizer, or it cannot be used.
    """
    local = resolve(os.fspath(path), revision=revision)
    if os.path.exists(os.path.join(local, tokenizer_files.SETTINGS_FILE)):
        return tokenizer_files.load_tokenizer(local).with_settings(**settings)
    if local.endswith(_FILES):
        return AlbertTokenizer.from_file(local, **settings)
    vocabulary = open_checkpoint(local).vocabulary
    if vocabulary.tokenizer is None:
        raise InputError(
            f"{path} holds no usable tokenizer"
            f"{vocabulary.problem and ': '}{vocabulary.problem}"
        )
    return vocabulary.tokenizer.with_settings(**settings)


AlbertTokenizer.checkpoint_loader = staticmethod(load_tokenizer)
