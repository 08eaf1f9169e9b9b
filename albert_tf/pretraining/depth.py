"""Losses of a model that runs only its first layers."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from albert_tf.layers.shared_stack import SharedStack
from albert_tf.models.base import AlbertModel
from albert_tf.objectives.objective import Objective
from albert_tf.training.loss import Loss


@dataclasses.dataclass(frozen=True)
class LossAtDepth:
    """A loss of the first `depth` layers of a model; see `Loss`.

    If all layers share their weights, it is the loss of a model with this
    number of layers and the same weights. Other stacks of the model, such as a
    generator's, also run fewer layers if they are as deep as the model, unless
    the objective names their head in `heads_of_fixed_depth`.
    """

    loss: Objective
    depth: int

    def normalizers(self, batch: Any) -> Mapping[str, tf.Tensor]:
        """Returns the denominators of the loss."""
        return self.loss.normalizers(batch)

    def __call__(
        self,
        model: AlbertModel,
        batch: Any,
        normalizers: Mapping[str, tf.Tensor],
        seed: tf.Tensor | None,
    ) -> tuple[tf.Tensor, Mapping[str, tf.Tensor]]:
        """Returns the loss and the metrics."""
        with contextlib.ExitStack() as shallow:
            for layer in model._flatten_layers():
                if isinstance(layer, SharedStack) and self._follows(
                    layer, model.config.num_hidden_layers
                ):
                    shallow.enter_context(layer.first_layers(self.depth))
            return self.loss(model, batch, normalizers, seed)

    def _follows(self, stack: SharedStack, depth: int) -> bool:
        """Returns whether a stack is as deep as the model in every phase."""
        scopes = stack.weights[0].path.split("/")
        fixed = any(x in scopes for x in self.loss.heads_of_fixed_depth)
        return stack.config.num_hidden_layers == depth and not fixed


def loss_at_depth(loss: Objective, model: AlbertModel, depth: int) -> Loss:
    """Returns the loss of the first layers of a model; see `LossAtDepth`."""
    if depth == model.config.num_hidden_layers:
        return loss
    return LossAtDepth(loss, depth)
