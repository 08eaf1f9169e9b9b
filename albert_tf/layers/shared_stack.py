"""The stack of blocks whose layers share weights (paper, section 3.1)."""

from __future__ import annotations

import keras

from albert_tf.config import AlbertConfig
from albert_tf.layers.attention import SelfAttention
from albert_tf.layers.dropout import dropout_seeds, reserve_seeds
from albert_tf.layers.feed_forward import FeedForward
from albert_tf.layers.rematerialize import rematerialize


class SharedStack(keras.layers.Layer):
    """L layers of `inner_group_num` post-LN blocks each.

    Layer l belongs to group `l * G // L`. The attention (or feed-forward) half
    of inner block i is one set of weights for the whole group if
    `config.sharing` shares it, and one set a layer otherwise:

        group_<g>/inner_<i>/attention      shared by the layers of group g
        layer_<l>/inner_<i>/feed_forward   layer l's own

    A LayerNorm belongs to the half that it ends. So "all" with G groups is what
    Google's code calls `num_hidden_groups`, and "none" is BERT's way.

    Args:
      config: the architecture.
      rematerialize: whether training keeps the inputs of the blocks only, and
        the backward pass runs each block once more.
      **kwargs: `name` and `dtype` of `keras.layers.Layer`.
    """

    def __init__(
        self, config: AlbertConfig, rematerialize: bool = False, **kwargs
    ):
        super().__init__(**kwargs)
        self.config = config
        self.rematerialize = rematerialize
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

    def call(
        self,
        rows,
        layout,
        positions=None,
        training=False,
        output_attentions=False,
        first_block=0,
    ):
        """Runs the stack.

        Args:
          rows: `[rows, hidden]`.
          layout: `PaddedRows` or `PackedRows`.
          positions: None, or `[batch, picks]`: then the last block computes
            only the rows at these positions, all that a head needs.
          training: whether dropout is on.
          output_attentions: whether to return attention probabilities too. What
            they are made of is then kept: blocks are not rematerialized.
          first_block: where to begin; -1 is the last block.

        Returns:
          One `[rows, hidden]` for each block; the last one has
          `batch * picks` rows if `positions` is given. With
          `output_attentions`, a pair of that and one float32
          `[batch, heads, queries, seq]` for each block; what padding attends to
          is without meaning.
        """
        blocks = self._blocks[first_block:]
        used = dict.fromkeys(a for a, _ in blocks)
        fused = {a: self.attentions[a].fused() for a in used}
        run = self._run
        # Without training there is no backward pass to keep anything for.
        if self.rematerialize and training and not output_attentions:
            run = self._run_rematerialized
        outputs, attentions = [], []
        for number, (a, f) in enumerate(blocks, start=1):
            last = number == len(blocks)
            rows, probs = run(
                self.attentions[a],
                self.feed_forwards[f],
                rows,
                fused[a],
                layout=layout,
                positions=positions if last else None,
                training=training,
                output_attentions=output_attentions,
            )
            outputs.append(rows)
            attentions.append(probs)
        return (outputs, attentions) if output_attentions else outputs

    def _run(
        self,
        attention,
        feed_forward,
        rows,
        fused,
        training,
        output_attentions,
        **arguments,
    ):
        """Runs one block; returns its rows, and its attentions or None."""
        rows = attention(
            rows,
            fused=fused,
            training=training,
            output_attentions=output_attentions,
            **arguments,
        )
        rows, probs = rows if output_attentions else (rows, None)
        return feed_forward(rows, training=training), probs

    def _run_rematerialized(
        self, attention, feed_forward, rows, fused, **arguments
    ):
        seed, first = reserve_seeds(
            [*attention.dropouts, *feed_forward.dropouts]
        )

        def run(rows, kernel, bias, seed):
            with dropout_seeds(seed, first):
                rows, _ = self._run(
                    attention, feed_forward, rows, (kernel, bias), **arguments
                )
                return rows

        # Query, key and value come in as the fused product's.
        variables = [
            *attention.output_dense.weights,
            *attention.layer_norm.weights,
            *feed_forward.weights,
        ]
        return rematerialize(run, (rows, *fused), variables, seed), None
