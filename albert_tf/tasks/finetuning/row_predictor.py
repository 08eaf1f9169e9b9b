"""What a model computes for rows of any number and length."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np
import tensorflow as tf

from albert_tf.data.features.batches import prediction_batches
from albert_tf.data.features.rows import Rows
from albert_tf.models.base import AlbertModel

Tensors = Mapping[str, tf.Tensor]
Outputs = dict[str, np.ndarray]


class RowPredictor:
    """Runs a model on rows, in batches of like length; traced once.

    On several replicas, each computes its share of every batch. Of several
    workers, all get all outputs.

    Args:
      strategy: the strategy of the model.
      model: any model.
      forward: maps the model and a batch, see `Rows.pad`, to outputs by name,
        each `[batch, ...]`; runs in a graph.
      token_outputs: the outputs that are `[batch, seq, ...]`.
      batch_size: examples of a batch.
      fixed_length: what all batches are padded to, the last one to
        `batch_size`, too, as XLA wants it; None: each to its longest row.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: AlbertModel,
        forward: Callable[[AlbertModel, Tensors], Tensors],
        *,
        token_outputs: Collection[str] = (),
        batch_size: int = 32,
        fixed_length: int | None = None,
    ):
        self._strategy = strategy
        self._model = model
        self._forward = forward
        self._token_outputs = frozenset(token_outputs)
        self._batch_size = batch_size
        self._fixed_length = fixed_length
        self._step: Callable | None = None

    def __call__(self, rows: Rows) -> list[Outputs]:
        """Returns the outputs of each example, in order.

        Args:
          rows: without columns, but for those that the model takes.

        Returns:
          For each example its outputs by name; those of tokens end where its
          longest row does.
        """
        results: list[Outputs] = [{}] * rows.num_examples
        lengths = rows.example_lengths
        for examples, batch in prediction_batches(
            rows, batch_size=self._batch_size, fixed_length=self._fixed_length
        ):
            outputs = self._outputs(self._fill_up(batch))
            for offset, example in enumerate(examples):
                results[example] = {
                    name: value[offset, : lengths[example]]
                    if name in self._token_outputs
                    else value[offset]
                    for name, value in outputs.items()
                }
        return results

    def _fill_up(self, batch: Outputs) -> Outputs:
        """Repeats the first example until the replicas have equal shares."""
        multiple = self._strategy.num_replicas_in_sync
        if self._fixed_length is not None:
            multiple *= -(-self._batch_size // multiple)
        size = len(batch["input_mask"])
        places = np.zeros(size + -size % multiple, np.int64)
        places[:size] = np.arange(size)
        return {name: values[places] for name, values in batch.items()}

    def _outputs(self, batch: Outputs) -> Outputs:
        if self._step is None:
            self._step = self._make_step(batch)
        tensors = {name: tf.constant(x) for name, x in batch.items()}
        return {name: x.numpy() for name, x in self._step(tensors).items()}

    def _make_step(self, batch: Outputs) -> Callable[[Tensors], Tensors]:
        """Returns a function of batches like one, of any size and length."""
        fixed = self._fixed_length is not None
        signature = {
            name: tf.TensorSpec(x.shape if fixed else [None] * x.ndim, x.dtype)
            for name, x in batch.items()
        }
        replicas = self._strategy.num_replicas_in_sync

        def on_replica(batch):
            if replicas == 1:
                return self._forward(self._model, batch)
            replica = tf.distribute.get_replica_context()
            number = replica.replica_id_in_sync_group

            def share(x):
                return tf.reshape(
                    x, tf.concat([[replicas, -1], tf.shape(x)[1:]], 0)
                )[number]

            outputs = self._forward(
                self._model, {name: share(x) for name, x in batch.items()}
            )
            return {n: replica.all_gather(x, 0) for n, x in outputs.items()}

        def step(batch):
            results = self._strategy.run(on_replica, args=(batch,))
            return {
                name: self._strategy.experimental_local_results(x)[0]
                for name, x in results.items()
            }

        return tf.function(step, input_signature=[signature], autograph=False)
