"""Rematerialization: activations computed again instead of kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import keras
from keras import ops
from keras.src.backend.common.variables import AutocastScope


def rematerialize(
    function: Callable,
    inputs: Sequence,
    variables: Sequence[keras.Variable],
    seed=None,
):
    """Returns `function(*inputs, seed)`; its backward pass runs it once more.

    Of the call, only the inputs are kept until the backward pass
    (arXiv:1604.06174). `keras.remat` does not serve here: on TensorFlow it
    takes no keyword arguments, passes no gradient to tensors that the function
    closes over, and copies every input, the weights included.

    Args:
      function: takes `inputs` and `seed`, returns one tensor. It must be a
        function of them and of `variables`: no state that it changes, and no
        gradient through other tensors that it closes over.
      inputs: float tensors; the first is the one that all of the function's
        large intermediate results depend on, apart from what `seed` makes.
      variables: all those that the function reads.
      seed: integer tensor, or None.
    """
    backend = keras.backend.backend()
    if backend == "tensorflow":
        return _on_tensorflow(function, inputs, variables, seed)
    if backend == "jax":
        import jax

        return jax.checkpoint(function)(*inputs, seed)
    if backend == "torch":
        from torch.utils.checkpoint import checkpoint

        return checkpoint(function, *inputs, seed, use_reentrant=False)
    raise ValueError(f"backend {backend!r} has no rematerialization")


def _on_tensorflow(function, inputs, variables, seed):
    import tensorflow as tf

    # The function is given the weights as inputs too, as values: then reading
    # them is differentiated where it happens, outside, whatever the strategy.
    count = len(inputs)

    def run(tensors, seed):
        values = zip(variables, tensors[count:], strict=True)
        with keras.StatelessScope(state_mapping=list(values)):
            return function(*tensors[:count], seed)

    @tf.custom_gradient
    def forward(*tensors):
        def backward(upstream):
            late = tensors[0]
            late_seed = seed
            if not tf.executing_eagerly():
                late, late_seed = _after(upstream, tensors[0], seed)
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                again = [late, *map(tf.identity, tensors[1:])]
                tape.watch(again)
                output = run(again, late_seed)
            return tape.gradient(
                output,
                again,
                output_gradients=upstream,
                unconnected_gradients=tf.UnconnectedGradients.ZERO,
            )

        # Stopped: outside, no tape is to keep what happens within.
        return run([tf.stop_gradient(x) for x in tensors], seed), backward

    # As they are stored: a cast copy would be kept for each block. Keras has no
    # public way to ask for that.
    with AutocastScope(None):
        weights = [tf.convert_to_tensor(v.value) for v in variables]
    return forward(*map(ops.convert_to_tensor, inputs), *weights)


def _after(upstream, rows, seed):
    """Makes rows and seed, as they are, depend on the upstream gradient.

    Else TensorFlow would compute the activations again at once, or merge the
    second computation with the first, and keep them all. A control dependency
    would not do: XLA drops it.
    """
    import tensorflow as tf

    probe = tf.reshape(upstream, [-1])[:1]
    # One value, or none of an empty batch. XLA cannot know that it is finite.
    broken = tf.reduce_any(tf.math.is_nan(probe))
    rows = tf.where(broken, tf.cast(float("nan"), rows.dtype), rows)
    if seed is not None:
        seed = tf.where(broken, tf.zeros_like(seed), seed)
    return rows, seed
