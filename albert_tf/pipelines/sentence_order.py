"""Prediction of the order of two passages."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError, shown
from albert_tf.finetuning.features import batched
from albert_tf.finetuning.predictor import CHUNK
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.pipelines.pipeline import Pipeline, check_items, with_positions
from albert_tf.pretrained_models import DEFAULT
from albert_tf.runtimes.config import Runtime


class SentenceOrder(Pipeline):
    """Predicts whether two passages are in order (paper, section 3.1).

    For example:

        order = albert_tf.SentenceOrder()
        order(("He fell asleep.", "Then he dreamed."))

    Args:
      model: a checkpoint with a sentence-order head; see
        `AlbertPretrainer.from_pretrained`. By default, the model of the
        package.
      batch_size: batch size.
      runtime: what computes the model; see `Predictor`.

    Raises:
      InputError: if the checkpoint cannot be loaded, or lacks a sentence-order
        head or a tokenizer.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] = DEFAULT,
        *,
        batch_size: int = 32,
        runtime: Runtime = "keras",
    ):
        super().__init__(batch_size, runtime)
        self._open(AlbertPretrainer, model, "sop_head")
        self._predict = self._predictor(_order_of_pairs)

    def __call__(
        self, pairs: tuple[str, str] | Iterable[tuple[str, str]]
    ) -> np.ndarray:
        """Returns the probability that each pair is swapped.

        Args:
          pairs: one pair of passages, or several, truncated to the model's
            maximum length.

        Returns:
          float32 `[pairs]`: near 0 for pairs in order, near 1 for swapped ones.
          One pair gives a scalar.

        Raises:
          InputError: if an item is not a pair of texts.
        """
        if _is_pair(pairs):
            return self([pairs])[0]
        check_items(pairs, "pairs")
        found = []
        for chunk in batched(pairs, CHUNK):
            for pair in chunk:
                if not _is_pair(pair):
                    raise InputError(f"{shown(pair)} must be a pair of texts")
            firsts, seconds = map(list, zip(*chunk, strict=True))
            features = self._features(firsts, seconds)
            positions = np.zeros((len(chunk), 0), np.int64)
            features = with_positions(features, positions)
            found += [x["swapped"] for x in self._predict(features)]
        return np.array(found, np.float32)


def _order_of_pairs(
    model: AlbertPretrainer, batch: Mapping[str, tf.Tensor]
) -> dict[str, tf.Tensor]:
    logits = model(batch)["sop_logits"]
    return {"swapped": tf.nn.softmax(logits)[:, 1]}


def _is_pair(value: Any) -> TypeGuard[tuple[str, str]]:
    is_list = isinstance(value, (list, tuple)) and len(value) == 2
    return is_list and all(isinstance(text, str) for text in value)
