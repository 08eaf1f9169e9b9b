"""What has to hold of a model and of its tokenizer to be exported."""

from __future__ import annotations

import os

import keras

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.models.base import AlbertModel
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.text.base_tokenizer import Tokenizer


def check_backend() -> None:
    """Raises an `InputError` unless Keras computes with TensorFlow."""
    if keras.backend.backend() != "tensorflow":
        raise InputError(
            "exporting a SavedModel needs KERAS_BACKEND=tensorflow, not "
            f"{keras.backend.backend()!r}"
        )


def check_encoder(model: AlbertModel) -> AlbertEncoder:
    """Returns the encoder of a model that is exported as one.

    Raises:
      InputError: it has no pooler; or see `check_backend`.
      TypeError: `model` is neither a pretrainer nor an encoder.
    """
    # Exactly these: what a subclass does otherwise would be lost in silence.
    if type(model) not in (AlbertPretrainer, AlbertEncoder):
        raise TypeError(
            "model must be an AlbertPretrainer or AlbertEncoder, not "
            f"{type(model).__name__}; another model's encoder is its .encoder"
        )
    check_backend()
    encoder = model.encoder if isinstance(model, AlbertPretrainer) else model
    if encoder.pooler is None:
        raise InputError(
            f"{model.name} was made with pooler=False, but an exported encoder "
            "promises pooled_output; export a model with a pooler"
        )
    return encoder


def check_vocabulary(
    tokenizer: Tokenizer, path: str | os.PathLike[str], config: AlbertConfig
) -> None:
    """Raises an `InputError` if a tokenizer has ids that a model has not.

    Args:
      tokenizer: the tokenizer.
      path: its file, for the error.
      config: of the model.
    """
    if tokenizer.vocab_size > config.vocab_size:
        raise InputError(
            f"{os.fspath(path)} has {tokenizer.vocab_size} pieces, but the "
            f"model's vocab_size is {config.vocab_size}; give the tokenizer "
            "that the model was trained with"
        )
