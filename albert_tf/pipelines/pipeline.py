"""Base class of pipelines."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.backend import check_backend
from albert_tf.errors import InputError, shown
from albert_tf.finetuning.features import Features, FeaturesBuilder
from albert_tf.finetuning.predictor import BatchPredictor, check_batch_size
from albert_tf.interop.names import ANY_HEAD
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.models.base import MASKED_LM_POSITIONS, AlbertModel
from albert_tf.models.pretrained import tokenizer_of
from albert_tf.runtimes.config import Runtime, choose_runtime
from albert_tf.text.arguments import check_not_table
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.training.distribution import strategy_of_this_machine


class Pipeline:
    """A pretrained model with its tokenizer, applied to batches of strings."""

    def __init__(self, batch_size: int, runtime: Runtime):
        check_backend(type(self).__name__)
        check_batch_size(batch_size)
        self._runtime = choose_runtime(runtime)
        self._batch_size = batch_size

    def _open(
        self,
        model_class: type[AlbertModel],
        path: str | os.PathLike[str],
        head: str | None,
        **arguments: Any,
    ) -> None:
        """Opens the model of a checkpoint, which must have `head`, if given."""
        checkpoint = open_checkpoint(path, head=ANY_HEAD)
        if head and head not in checkpoint.components:
            advice = "use another pooling, such as mean"
            if head != "pooler":
                advice = "give a model that was pretrained with it"
            raise InputError(
                f"{checkpoint.source} ({checkpoint.format}) has no {head}; "
                f"{advice}"
            )
        self._strategy = strategy_of_this_machine()
        with self._strategy.scope():
            self._model: Any = model_class.from_checkpoint(
                checkpoint, packed=True, **arguments
            )
        self._tokenizer = tokenizer_of(self._model, path)
        self._max_length = self._model.config.num_trained_positions
        self._checkpoint = checkpoint

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the model."""
        return self._tokenizer

    @property
    def max_length(self) -> int:
        """Number of tokens that texts are cut to."""
        return self._max_length

    def _predictor(self, forward: Callable) -> BatchPredictor:
        return BatchPredictor(
            self._strategy,
            self._model,
            forward,
            batch_size=self._batch_size,
            runtime=self._runtime,
        )

    def _features(
        self, firsts: Sequence[str], seconds: Sequence[str] | None = None
    ) -> Features:
        inputs = self._tokenizer(firsts, seconds, max_length=self._max_length)
        builder = FeaturesBuilder(pad_id=self._tokenizer.pad_id)
        builder.extend(inputs)
        return builder.build()


def with_positions(features: Features, positions: np.ndarray) -> Features:
    """Returns features with the positions of tokens to predict."""
    return dataclasses.replace(
        features, columns={MASKED_LM_POSITIONS: positions}
    )


def check_items(values: Any, name: str) -> None:
    """Raises an `InputError` if `values` is one text, or cannot be iterated."""
    check_not_table(values, name)
    is_one = isinstance(values, (str, bytes, Mapping))
    if is_one or not isinstance(values, Iterable):
        raise InputError(f"{name}={shown(values)} must be a list of {name}")
