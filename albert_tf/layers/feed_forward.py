"""The feed-forward half of a block."""

from __future__ import annotations

import keras

from albert_tf.config import AlbertConfig
from albert_tf.layers.dense import activation, dense
from albert_tf.layers.dropout import Dropout
from albert_tf.layers.layer_norm import LayerNorm


class FeedForward(keras.layers.Layer):
    """Rows -> rows: H -> I, activation, I -> H, dropout, + input, LayerNorm."""

    def __init__(self, config: AlbertConfig, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.intermediate = dense(
            config,
            config.intermediate_size,
            "intermediate",
            self.dtype_policy,
            activation(config.hidden_act),
        )
        self.output_dense = dense(
            config, config.hidden_size, "output", self.dtype_policy
        )
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

    @property
    def dropouts(self) -> list[Dropout]:
        """The dropout layers, in the order they are called."""
        return [self.output_dropout]

    def call(self, rows, training=False):
        """`[rows, hidden]` -> `[rows, hidden]`."""
        output = self.output_dense(self.intermediate(rows))
        output = self.output_dropout(output, training=training)
        return self.layer_norm(output + rows)
