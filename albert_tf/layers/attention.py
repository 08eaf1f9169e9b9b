"""Multi-head self-attention with its residual connection and LayerNorm."""

from __future__ import annotations

import math

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.layers import spaced_kernels
from albert_tf.layers.core import LayerNorm, at_least_float32, dense, product
from albert_tf.layers.dropout import Dropout


class SelfAttention(keras.layers.Layer):
    """The attention half of a block, on token rows.

    Attention, output projection, dropout, residual connection and LayerNorm.
    Query, key and value are three kernels `[H, H]`, as in ALBERT checkpoints,
    with head-major columns. They are applied in one product: `fused`
    concatenates them, once for all layers that share them.
    """

    def __init__(self, config: AlbertConfig, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.num_heads = config.num_attention_heads
        self.head_size = config.hidden_size // config.num_attention_heads

        def projection(name):
            return dense(config, config.hidden_size, name, self.dtype_policy)

        self.query = projection("query")
        self.key = projection("key")
        self.value = projection("value")
        self.output_dense = projection("output")
        self.probs_dropout = Dropout(
            config.attention_probs_dropout_prob,
            name="probs_dropout",
            dtype=self.dtype_policy,
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
        """Creates the weights; `input_shape` is not used."""
        shape = (None, self.config.hidden_size)
        for layer in (
            self.query,
            self.key,
            self.value,
            self.output_dense,
            self.layer_norm,
        ):
            layer.build(shape)

    @property
    def dropouts(self) -> list[Dropout]:
        """The dropout layers in call order."""
        return [self.probs_dropout, self.output_dropout]

    def fused(self):
        """Returns kernel `[H, 3H]` and bias `[3H]` of query, key and value.

        The query is scaled by 1 / sqrt(head size) instead of the scores, which
        saves a pass over them (and is exact if the head size is 4^n).
        """
        scale = 1.0 / math.sqrt(self.head_size)
        kernel = ops.concatenate(
            [self.query.kernel * scale, self.key.kernel, self.value.kernel],
            axis=1,
        )
        bias = ops.concatenate(
            [self.query.bias * scale, self.key.bias, self.value.bias], axis=0
        )
        return kernel, bias

    def products(self, spaced: bool):
        """Returns `fused`, and the output's kernel and bias if not its own.

        Args:
          spaced: whether to lay them out as `spaced_kernels` does; otherwise
            the output has its own weights, and None is returned for them.
        """
        if not spaced:
            return self.fused(), None
        dense = self.output_dense
        return (
            spaced_kernels.space(*self.fused()),
            spaced_kernels.space(dense.kernel, dense.bias),
        )

    def call(
        self,
        rows,
        layout,
        products,
        positions=None,
        training=False,
        output_attentions=False,
    ):
        """Applies attention.

        Args:
          rows: `[rows, hidden]`.
          layout: `PaddedRows` or `PackedRows`.
          products: the output of `products`.
          positions: `[batch, picks]`, the positions to compute, or None for
            all. Keys and values are computed for all rows.
          training: whether to apply dropout.
          output_attentions: whether to return the attention probabilities.

        Returns:
          `[rows, hidden]`, or `[batch * picks, hidden]` with `positions`. With
          `output_attentions`, a pair of this and the probabilities before
          dropout, float32 `[batch, heads, queries, seq]`.
        """
        hidden = self.config.hidden_size
        (kernel, bias), spaced_output = products
        if positions is None:
            qkv = product(rows, kernel, bias)
            qkv = spaced_kernels.first_columns(qkv, 3 * hidden)
            qkv = layout.to_batch(qkv)
            query, key, value = (
                self._heads(x) for x in ops.split(qkv, 3, axis=-1)
            )
        else:
            kv = product(rows, kernel[:, hidden:], bias[hidden:])
            kv = spaced_kernels.first_columns(kv, 2 * hidden)
            key, value = (
                self._heads(x)
                for x in ops.split(layout.to_batch(kv), 2, axis=-1)
            )
            rows = layout.take(rows, positions)
            query = product(rows, kernel[:, :hidden], bias[:hidden])
            picks = ops.shape(positions)[1]
            query = self._split(query, layout.batch, picks)
        bias = layout.attention_bias(positions)
        context, probs = self._attend(query, key, value, bias, training)
        if positions is None:
            context = layout.to_rows(context)
        else:
            context = ops.reshape(context, (-1, hidden))
        if spaced_output is None:
            output = self.output_dense(context)
        else:
            output = spaced_kernels.first_columns(
                product(context, *spaced_output), hidden
            )
        output = self.output_dropout(output, training=training)
        rows = self.layer_norm(output + rows)
        return (rows, probs) if output_attentions else rows

    def _heads(self, x):
        """Splits `[batch, seq, hidden]` into `[batch, heads, seq, size]`."""
        return self._split(x, *ops.shape(x)[:2])

    def _split(self, x, batch, length):
        """Splits rows or `[batch, length, hidden]` into heads."""
        x = ops.reshape(x, (batch, length, self.num_heads, self.head_size))
        return ops.transpose(x, (0, 2, 1, 3))

    def _attend(self, query, key, value, bias, training):
        """Returns the context `[batch, queries, hidden]` and probabilities."""
        scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))
        # Scores and softmax are computed in float32 in any precision.
        scores = at_least_float32(scores)
        scores += ops.cast(bias, scores.dtype)
        probs = ops.softmax(scores, axis=-1)
        dropped = self.probs_dropout(
            ops.cast(probs, self.compute_dtype), training=training
        )
        context = ops.transpose(ops.matmul(dropped, value), (0, 2, 1, 3))
        batch, length = ops.shape(context)[:2]
        shape = (batch, length, self.config.hidden_size)
        return ops.reshape(context, shape), probs
