"""Losses of a model that runs only its first layers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.training.loss import Loss


@dataclasses.dataclass(frozen=True)
class LossAtDepth:
    """A loss of the first layers of a model; see `Loss`.

    If all layers share their weights, it is the loss of a model with this
    number of layers and the same weights.

    Attributes:
      loss: the loss.
      depth: number of layers to run.
    """

    loss: Loss
    depth: int

    def normalizers(self, batch: Any) -> Mapping[str, tf.Tensor]:
        """Returns the denominators of the loss."""
        return self.loss.normalizers(batch)

    def __call__(
        self,
        model: AlbertPretrainer,
        batch: Any,
        normalizers: Mapping[str, tf.Tensor],
        seed: tf.Tensor | None,
    ) -> tuple[tf.Tensor, Mapping[str, tf.Tensor]]:
        """Returns the loss and the metrics."""
        with model.encoder.stack.first_layers(self.depth):
            return self.loss(model, batch, normalizers, seed)
