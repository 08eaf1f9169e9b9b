"""The `Loss` protocol, and a fast cross-entropy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import keras
from keras import ops

from albert_tf.layers.token_rows import take_rows

# Name of a metric that is a count, not a mean: element 0 is the number of real
# tokens, which the trainer reports as `tokens_per_second`.
TOKENS = "tokens"

# Key of the example weights in an evaluation batch, float32 `[batch]`: 0 for
# examples that only pad the batch. Training batches have no weights.
WEIGHTS = "example_weights"


class Loss(Protocol):
    """Loss and metrics of a batch, as called by `Trainer` and `Evaluator`."""

    def normalizers(self, batch: Any) -> Mapping[str, Any]:
        """Returns what `batch` contributes to the denominators of the loss.

        Args:
          batch: nested tensors `[batch, ...]`; a slice of the global batch. In
            evaluation it is a dict that has `WEIGHTS`.

        Returns:
          float32 scalars by name, each a sum over the examples of `batch`, such
          as their number or the sum of label weights. They are summed over all
          replicas before the forward pass.
        """
        ...

    def __call__(
        self, model: Any, batch: Any, normalizers: Mapping[str, Any], seed: Any
    ) -> tuple[Any, Mapping[str, Any]]:
        """Returns what `batch` contributes to the loss and to the metrics.

        Args:
          model: the Keras model.
          batch: see `normalizers`.
          normalizers: the denominators of the whole global batch; in
            evaluation, of the whole dataset.
          seed: int32 `[2]` for dropout; None in evaluation.

        Returns:
          The loss, a float32 scalar, and the metrics by name, float32 `[2]`:
          weighted sum and weight. Both are summed over all slices. `"tokens"`
          is special, see `TOKENS`.
        """
        ...


def sparse_cross_entropy(labels: Any, logits: Any) -> tuple[Any, Any]:
    """Computes the cross-entropy and the accuracy of each prediction.

    On TensorFlow, the cross-entropy is that of
    `tf.nn.sparse_softmax_cross_entropy_with_logits`, but takes less than half
    the time on CPUs: the normalizer is computed from the vectorized softmax and
    the largest logit, which the accuracy needs anyway.

    Args:
      labels: integers `[...]` in [0, classes).
      logits: float32 `[..., classes]`.

    Returns:
      The negative log-likelihood of the label, float32 `[...]`, and 1.0 where
      the label has the largest logit, else 0.0, float32 `[...]`.
    """
    shape, classes = ops.shape(labels), ops.shape(logits)[-1]
    logits = ops.reshape(logits, (-1, classes))
    labels = ops.reshape(labels, (-1,))
    best = ops.cast(ops.argmax(logits, axis=-1), labels.dtype)
    if keras.backend.backend() == "tensorflow":
        nll = _cross_entropy(logits, labels, best)
    else:
        nll = -_entries(ops.log_softmax(logits, axis=-1), labels)
    hits = ops.cast(ops.equal(best, labels), "float32")
    return ops.reshape(nll, shape), ops.reshape(hits, shape)


def _entries(rows: Any, index: Any) -> Any:
    """Returns entry `index[i]` of each row i."""
    return take_rows(rows, index[:, None], batch_dims=1)[:, 0]


def _cross_entropy(logits: Any, labels: Any, best: Any) -> Any:
    """Returns the negative log-likelihood of labels, with its gradient."""

    @ops.custom_gradient
    def nll(logits):
        probabilities = ops.softmax(logits, axis=-1)
        # The largest one is at least 1 / classes: its logarithm is finite.
        largest = _entries(probabilities, best)
        normalizer = _entries(logits, best) - ops.log(largest)

        def gradient(upstream):
            hits = ops.one_hot(labels, ops.shape(logits)[-1])
            return (probabilities - hits) * upstream[:, None]

        return normalizer - _entries(logits, labels), gradient

    return nll(logits)
