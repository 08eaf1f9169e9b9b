"""Factorized embeddings (paper, section 3.1)."""

from __future__ import annotations

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.layers.core import LayerNorm, at_least_float32, truncated_normal
from albert_tf.layers.dropout import Dropout
from albert_tf.layers.token_rows import take_rows


class Embeddings(keras.layers.Layer):
    """Word + token type + position -> LayerNorm -> dropout, at width E."""

    def __init__(self, config: AlbertConfig, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.layer_norm = LayerNorm(
            config.layer_norm_eps, name="layer_norm", dtype=self.dtype_policy
        )
        self.dropout = Dropout(
            config.hidden_dropout_prob, name="dropout", dtype=self.dtype_policy
        )

    def build(self, input_shape=None):
        """Makes the tables `[V, E]`, `[types, E]` and `[positions, E]`."""
        config = self.config
        for name, rows in (
            ("word_embeddings", config.vocab_size),
            ("token_type_embeddings", config.type_vocab_size),
            ("position_embeddings", config.max_position_embeddings),
        ):
            table = self.add_weight(
                shape=(rows, config.embedding_size),
                initializer=truncated_normal(config.initializer_range),
                name=name,
                # Look-ups and their gradients, sums over all tokens of a
                # batch, are taken in float32 whatever the precision: in
                # bfloat16 such a sum is wrong by half on CPUs, and takes a
                # thousand times as long on GPUs.
                autocast=False,
            )
            setattr(self, name, table)
        self.layer_norm.build((None, config.embedding_size))

    def call(self, word_ids, type_ids, positions=None, training=False):
        """`[batch, seq]` ids -> `[batch, seq, embedding_size]`.

        Args:
          word_ids: the tokens. For ids out of bounds, see `take_rows`.
          type_ids: their segments; likewise.
          positions: their positions; None for 0, 1, ... in every row.
          training: whether dropout is on.
        """
        length = ops.shape(word_ids)[1]
        longest = self.config.max_position_embeddings
        if isinstance(length, int) and length > longest:
            raise ValueError(
                f"input_word_ids has length {length}, but this model's "
                f"max_position_embeddings is {longest}"
            )
        x = (
            _rows_of(self.word_embeddings, word_ids)
            + _rows_of(self.token_type_embeddings, type_ids)
            + (
                at_least_float32(self.position_embeddings[:length])
                if positions is None
                else _rows_of(self.position_embeddings, positions)
            )
        )
        x = ops.cast(x, self.compute_dtype)
        return self.dropout(self.layer_norm(x), training=training)


def _rows_of(table, ids):
    """Looks up rows, with a dense gradient.

    A lookup in a variable has a gradient in slices on TensorFlow, several for a
    row that occurs several times. Keras's optimizers square and clip these
    before they are summed, so that `fit` would do other updates there than on
    JAX and PyTorch. A reshape costs nothing, and its gradient is dense.
    """
    return take_rows(at_least_float32(ops.reshape(table, table.shape)), ids)
