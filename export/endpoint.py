"""The callable objects that a Reusable SavedModel is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

Tensors = dict[str, tf.Tensor]


class Endpoint(tf.train.Checkpoint):
    """An object with `__call__`, `variables` and what else the contract asks.

    Not a `tf.Module`, whose `variables` property looks for `tf.Variable`
    attributes, and not a Keras object, which would need Keras to load.

    Attributes:
      variables: every variable that a call may read.
      trainable_variables: those to fine-tune: here, all of them.
      regularization_losses: none; ALBERT has no such loss.

    Args:
      function: what `__call__` is, a traced `tf.function`.
      variables: see the attribute.
    """

    def __init__(
        self, function: Callable, variables: Sequence[tf.Variable] = ()
    ):
        super().__init__()
        self.__call__ = function
        self.variables = list(variables)
        self.trainable_variables = list(variables)
        self.regularization_losses = []


def dict_function(
    body: Callable[[Tensors, bool], Tensors], names: Sequence[str]
) -> Callable:
    """Makes the `__call__` of an endpoint that maps a dict to a dict.

    Args:
      body: a `tf.function` of a dict of int32 `[batch, size]` and a Python bool
        `training`. It is called, not inlined, so all functions made from one
        body share its graphs: what they add to the file is small.
      names: the keys of the dict.

    Returns:
      A `tf.function` of `(inputs, training=False)`, traced for both values and
      for inputs that are all int32 or all int64.
    """

    @tf.function(autograph=False)
    def call(inputs, training=False):
        return body(_as_int32(inputs), training)

    for inputs in _input_specs(names):
        for training in (False, True):
            call.get_concrete_function(inputs, training=training)
    return call


def training_function(
    body: Callable[[Tensors, bool], Tensors], names: Sequence[str]
) -> Callable:
    """Like `dict_function` with `training=True` for good.

    `keras.layers.TFSMLayer` passes no `training`: it has another endpoint.
    """

    @tf.function(autograph=False)
    def call(inputs):
        return body(_as_int32(inputs), True)

    for inputs in _input_specs(names):
        call.get_concrete_function(inputs)
    return call


def _as_int32(inputs: Tensors) -> Tensors:
    return {name: tf.cast(x, tf.int32) for name, x in inputs.items()}


def _input_specs(names: Sequence[str]) -> list[dict[str, tf.TensorSpec]]:
    return [
        {name: tf.TensorSpec([None, None], dtype, name) for name in names}
        # NumPy, JSON and tf.data make int64; the contract asks for int32.
        for dtype in (tf.int32, tf.int64)
    ]
