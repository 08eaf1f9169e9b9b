"""The feed-forward half of a block."""

from __future__ import annotations

import keras

from albert_tf.config import AlbertConfig
from albert_tf.layers.activations import activation
from albert_tf.layers.dropout import Dropout
from albert_tf.layers.initializers import truncated_normal
from albert_tf.layers.layer_norm import LayerNorm


class FeedForward(keras.layers.Layer):
    """Rows -> rows: H -> I, activation, I -> H, dropout, + input, LayerNorm."""

    def __init__(self, config: AlbertConfig, **kwargs):
        super().__init__(**kwargs)
        self.config = config

        def dense(size, name, function=None):
            return keras.layers.Dense(
                size,
                activation=function,
                kernel_initializer=truncated_normal(config.initializer_range),
                name=name,
                dtype=self.dtype_policy,
            )

        self.intermediate = dense(
            config.intermediate_size,
            "intermediate",
            activation(config.hidden_act),
        )
        self.output_dense = dense(config.hidden_size, "output")
        self.output_dropout = Dropout(
            config.hidden_dropout_prob,
            name="output_dropout",
            dtype=self.dtype_policy,
        )
        self.layer_norm = LayerNorm(
            config.layer_norm_eps, name="layer_norm", dtype=self.dtype_policy
        )

    def build(self, input_shape=None):
        """Makes the weights; sizes come from the config."""
        hidden = (None, self.config.hidden_size)
        self.intermediate.build(hidden)
        self.output_dense.build((None, self.config.intermediate_size))
        self.layer_norm.build(hidden)

    def call(self, rows, training=False):
        """`[rows, hidden]` -> `[rows, hidden]`."""
        output = self.output_dense(self.intermediate(rows))
        output = self.output_dropout(output, training=training)
        return self.layer_norm(output + rows)
