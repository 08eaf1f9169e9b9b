"""The masked language model head, tied to the word embeddings."""

from __future__ import annotations

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.layers.dense import activation, dense
from albert_tf.layers.layer_norm import LayerNorm


class MaskedLMHead(keras.layers.Layer):
    """Dense H -> E with activation, LayerNorm, times the word table, + bias."""

    def __init__(self, config: AlbertConfig, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.dense = dense(
            config,
            config.embedding_size,
            "dense",
            self.dtype_policy,
            activation(config.hidden_act),
        )
        self.layer_norm = LayerNorm(
            config.layer_norm_eps, name="layer_norm", dtype=self.dtype_policy
        )

    def build(self, input_shape=None):
        """Makes the weights; the output matrix is the embedding table."""
        self.dense.build((None, self.config.hidden_size))
        self.layer_norm.build((None, self.config.embedding_size))
        self.output_bias = self.add_weight(
            shape=(self.config.vocab_size,),
            initializer="zeros",
            name="output_bias",
            autocast=False,
        )

    def call(self, rows, word_embeddings):
        """`[rows, hidden]`, table `[V, E]` -> float32 logits `[rows, V]`."""
        x = self.layer_norm(self.dense(rows))
        x, table, bias = (
            ops.cast(value, "float32")
            for value in (x, word_embeddings, self.output_bias)
        )
        return ops.add(ops.matmul(x, ops.transpose(table)), bias)
