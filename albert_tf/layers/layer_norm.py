"""LayerNorm, computed in float32 whatever the model's precision."""

from __future__ import annotations

import keras
from keras import ops

from albert_tf.layers.precision import at_least_float32


class LayerNorm(keras.layers.Layer):
    """Normalizes the last axis, then scales by gamma and adds beta.

    Mean and variance are taken in float32 (a float32 island under mixed
    precision: with epsilon 1e-12 a half-precision variance would underflow);
    the result has the compute dtype. `keras.layers.LayerNormalization` takes
    twice the time on a CPU.

    Args:
      epsilon: added to the variance; the original's is 1e-12.
    """

    def __init__(self, epsilon: float, **kwargs):
        super().__init__(**kwargs)
        self.epsilon = epsilon

    def build(self, input_shape):
        """Makes gamma and beta `[size]`."""
        size = input_shape[-1]
        # autocast=False: the weights stay float32 in the float32 island.
        self.gamma = self.add_weight(
            shape=(size,), initializer="ones", name="gamma", autocast=False
        )
        self.beta = self.add_weight(
            shape=(size,), initializer="zeros", name="beta", autocast=False
        )

    def call(self, inputs, training=None):
        """Returns the normalized inputs, same shape.

        In training, it may be that of `layers.recomputed`.
        """
        x = at_least_float32(inputs)
        gamma, beta = (ops.cast(w, x.dtype) for w in (self.gamma, self.beta))
        if keras.backend.backend() == "tensorflow":
            from albert_tf.layers import recomputed

            if recomputed.is_used(inputs, training):
                # Not of `x`, whose float32 would be kept for the gradient.
                outputs = recomputed.layer_norm(
                    inputs, gamma, beta, self.epsilon
                )
                return ops.cast(outputs, self.compute_dtype)
        centered = x - ops.mean(x, axis=-1, keepdims=True)
        variance = ops.mean(ops.square(centered), axis=-1, keepdims=True)
        normal = centered * ops.rsqrt(variance + self.epsilon)
        return ops.cast(normal * gamma + beta, self.compute_dtype)
