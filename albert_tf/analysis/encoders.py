"""Encoders to analyze, with their names and tokenizers."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.errors import InputError
from albert_tf.interop.checkpoint import check_vocabulary
from albert_tf.models.base import AlbertModel
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrained import tokenizer_of
from albert_tf.text.base_tokenizer import Tokenizer

# A checkpoint for `AlbertEncoder.from_pretrained`, or a model.
Model = str | os.PathLike[str] | AlbertModel


@dataclasses.dataclass(frozen=True)
class NamedEncoder:
    """An encoder to analyze, its name in tables and plots, and its tokenizer.

    The tokenizer must not have more pieces than the encoder has embeddings.
    """

    name: str
    encoder: AlbertEncoder
    tokenizer: Tokenizer

    def __post_init__(self) -> None:
        check_vocabulary(self.tokenizer, self.encoder.config)

    def encode(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        max_seq_length: int,
    ) -> dict[str, np.ndarray]:
        """Tokenizes texts, or pairs of texts, to the encoder's input dict.

        They are truncated to `max_seq_length` tokens, or fewer if the model was
        trained with shorter sequences.
        """
        if max_seq_length < 3:
            raise InputError(
                f"max_seq_length={max_seq_length} must be at least 3, for a "
                "token between [CLS] and [SEP]"
            )
        longest = self.encoder.config.num_trained_positions
        length = min(max_seq_length, longest)
        return self.tokenizer(texts, pairs, max_length=length)


def open_encoders(
    models: Model | Sequence[Model] | Mapping[str, Model],
) -> list[NamedEncoder]:
    """Opens models to analyze.

    Args:
      models: a model, several, or name -> model. The default name is that of
        the folder, or its path if names are not unique.
    """
    if isinstance(models, (str, os.PathLike, AlbertModel)):
        models = [models]
    if not isinstance(models, Mapping):
        models = dict(zip(_names(models), models, strict=True))
    if not models:
        raise InputError("there is no model to analyze; give at least one")
    return [_open(name, x) for name, x in models.items()]


def _names(models: Sequence[Model]) -> list[str]:
    full = [
        x.name if isinstance(x, AlbertModel) else os.fspath(x).rstrip("/")
        for x in models
    ]
    names = [os.path.basename(x) or x for x in full]
    if len(set(names)) < len(names):
        names = full
    if len(set(names)) < len(names):
        names = [f"{x} ({i})" for i, x in enumerate(names, 1)]
    return names


def _open(name: str, model: Any) -> NamedEncoder:
    if not isinstance(model, AlbertModel):
        model = AlbertEncoder.from_pretrained(model)
    encoder = getattr(model, "encoder", model)
    return NamedEncoder(name, encoder, tokenizer_of(model, name))
