"""What the training loop is given to train on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import tensorflow as tf

# The name of a metric that is a count and not a mean: element 0 is the number
# of real tokens; the loop turns it into `tokens_per_second`.
TOKENS = "tokens"


class Task(Protocol):
    """A loss and metrics for batches; the loop knows nothing else."""

    def normalizers(self, batch: Any) -> Mapping[str, tf.Tensor]:
        """Returns the denominators of the loss that `batch` contributes.

        Args:
          batch: nested tensors `[batch, ...]`; some or all of a global batch.

        Returns:
          float32 scalars by name, each a sum over the examples of `batch`
          (number of examples, sum of label weights). The loop adds them up
          over all replicas before the forward pass.
        """
        ...

    def loss(
        self,
        model: Any,
        batch: Any,
        normalizers: Mapping[str, tf.Tensor],
        seed: tf.Tensor | None,
    ) -> tuple[tf.Tensor, Mapping[str, tf.Tensor]]:
        """Returns the share of the loss that `batch` contributes, and metrics.

        Args:
          model: the Keras model.
          batch: nested tensors `[batch, ...]`; a slice of the global batch,
            possibly with no example at all in evaluation.
          normalizers: the denominators of the whole global batch; of the whole
            dataset in evaluation.
          seed: int32 `[2]` for dropout; None in evaluation.

        Returns:
          The loss, a float32 scalar: the shares of all slices add up to it.
          The metrics by name, float32 `[2]`: weighted sum and weight, which
          add up the same way. `"tokens"` is special, see `TOKENS`.
        """
        ...
