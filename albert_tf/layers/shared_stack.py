"""The stack of blocks whose layers share weights (paper, section 3.1)."""

from __future__ import annotations

import keras

from albert_tf.config import AlbertConfig
from albert_tf.layers.attention import SelfAttention
from albert_tf.layers.feed_forward import FeedForward


class SharedStack(keras.layers.Layer):
    """L layers of `inner_group_num` post-LN blocks each.

    Layer l belongs to group `l * G // L`. The attention (or feed-forward) half
    of inner block i is one set of weights for the whole group if
    `config.sharing` shares it, and one set a layer otherwise:

        group_<g>/inner_<i>/attention      shared by the layers of group g
        layer_<l>/inner_<i>/feed_forward   layer l's own

    A LayerNorm belongs to the half that it ends. So "all" with G groups is what
    Google's code calls `num_hidden_groups`, and "none" is BERT's way.
    """

    def __init__(self, config: AlbertConfig, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        attention_of = config.block_scopes("attention")
        ffn_of = config.block_scopes("ffn")
        self._attention_scopes = list(dict.fromkeys(attention_of))
        self._ffn_scopes = list(dict.fromkeys(ffn_of))
        # One entry a set of weights, in flat lists: what Keras can save.
        self.attentions = [
            SelfAttention(config, name="attention", dtype=self.dtype_policy)
            for _ in self._attention_scopes
        ]
        self.feed_forwards = [
            FeedForward(config, name="feed_forward", dtype=self.dtype_policy)
            for _ in self._ffn_scopes
        ]
        # Which sets the L * inner_group_num blocks use, in the order they run.
        self._blocks = [
            (self._attention_scopes.index(a), self._ffn_scopes.index(f))
            for a, f in zip(attention_of, ffn_of, strict=True)
        ]

    def build(self, input_shape=None):
        """Makes every set of weights once, under the name of its scope."""
        for layers, scopes in (
            (self.attentions, self._attention_scopes),
            (self.feed_forwards, self._ffn_scopes),
        ):
            for layer, (outer, inner) in zip(layers, scopes, strict=True):
                with keras.name_scope(outer), keras.name_scope(inner):
                    layer.build()

    def call(self, rows, layout, positions=None, training=False):
        """Runs the stack.

        Args:
          rows: `[rows, hidden]`.
          layout: `PaddedRows` or `PackedRows`.
          positions: None, or `[batch, picks]`: then the last block computes
            only the rows at these positions, all that a head needs.
          training: whether dropout is on.

        Returns:
          One `[rows, hidden]` for each block; the last one has
          `batch * picks` rows if `positions` is given.
        """
        fused = [attention.fused() for attention in self.attentions]
        outputs = []
        for number, (a, f) in enumerate(self._blocks, start=1):
            rows = self.attentions[a](
                rows,
                layout=layout,
                fused=fused[a],
                positions=positions if number == len(self._blocks) else None,
                training=training,
            )
            rows = self.feed_forwards[f](rows, training=training)
            outputs.append(rows)
        return outputs
