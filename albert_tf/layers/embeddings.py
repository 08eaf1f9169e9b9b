"""Factorized embeddings (paper, section 3.1)."""

from __future__ import annotations

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.layers.core import LayerNorm, at_least_float32, truncated_normal
from albert_tf.layers.dropout import Dropout
from albert_tf.layers.token_rows import take_rows


class Embeddings(keras.layers.Layer):
    """Sum of word, token type and position embeddings, LayerNorm, dropout."""

    def __init__(self, config: AlbertConfig, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.layer_norm = LayerNorm(
            config.layer_norm_eps, name="layer_norm", dtype=self.dtype_policy
        )
        self.dropout = Dropout(
            config.hidden_dropout_prob, name="dropout", dtype=self.dtype_policy
        )

    @property
    def output_shape(self) -> tuple[int | None, ...]:
        """Shape for Keras's `summary`."""
        return (None, None, self.config.embedding_size)

    def build(self, input_shape=None):
        """Creates the tables `[V, E]`, `[types, E]` and `[positions, E]`."""
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
                # Lookups and their gradients, sums over all tokens of a batch,
                # are computed in float32 in any precision: in bfloat16, such a
                # sum is off by half on CPUs, and a thousand times slower on
                # GPUs.
                autocast=False,
            )
            setattr(self, name, table)
        self.layer_norm.build((None, config.embedding_size))

    def call(self, word_ids, type_ids, positions=None, training=False):
        """Maps ids `[batch, seq]` to `[batch, seq, embedding_size]`.

        For ids out of range, see `take_rows`.

        Args:
          word_ids: token ids.
          type_ids: segment ids.
          positions: positions; None for 0, 1, ... in every row.
          training: whether to apply dropout.
        """
        length = ops.shape(word_ids)[1]
        longest = self.config.max_position_embeddings
        traced = _is_traced(word_ids, length)
        if isinstance(length, int) and length > longest and not traced:
            raise ValueError(
                f"input_word_ids has length {length}, but this model's "
                f"max_position_embeddings is {longest}"
            )
        if traced and positions is None:
            positions = ops.arange(length) % longest
        x = (
            _lookup(self.word_embeddings, word_ids)
            + _lookup(self.token_type_embeddings, type_ids)
            + (
                at_least_float32(self.position_embeddings[:length])
                if positions is None
                else _lookup(self.position_embeddings, positions)
            )
        )
        x = ops.cast(x, self.compute_dtype)
        return self.dropout(self.layer_norm(x), training=training)


def _is_traced(word_ids, length) -> bool:
    """Returns whether only shapes are computed, and slices have wrong ones.

    For an unknown length, JAX slices to the minimum of it and the size, and
    Keras puts an arbitrary length in its place on PyTorch.
    """
    if keras.backend.backend() == "jax":
        return not isinstance(length, int)
    return getattr(getattr(word_ids, "device", None), "type", "") == "meta"


def _lookup(table, ids):
    """Looks up rows, with a dense gradient.

    On TensorFlow, the gradient of a lookup in a variable is a set of slices,
    with duplicates for repeated ids. Keras's optimizers square and clip slices
    before they are summed, so `fit` would compute other updates than on JAX and
    PyTorch. A reshape is free and makes the gradient dense.
    """
    return take_rows(at_least_float32(ops.reshape(table, table.shape)), ids)
