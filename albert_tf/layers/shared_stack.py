"""The stack of blocks whose layers share weights (paper, section 3.1)."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Callable, Iterator, Sequence

import keras
from keras import ops
from keras.src.backend.common.variables import AutocastScope

from albert_tf.config import AlbertConfig
from albert_tf.layers import spaced_kernels
from albert_tf.layers.attention import SelfAttention
from albert_tf.layers.core import LayerNorm, activation, dense, product
from albert_tf.layers.dropout import Dropout, dropout_seeds, reserve_seeds


class FeedForward(keras.layers.Layer):
    """The feed-forward half of a block, on token rows.

    Dense layers H -> I -> H, dropout, residual connection and LayerNorm.
    """

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
        """Creates the weights; `input_shape` is not used."""
        hidden = (None, self.config.hidden_size)
        self.intermediate.build(hidden)
        self.output_dense.build((None, self.config.intermediate_size))
        self.layer_norm.build(hidden)

    @property
    def dropouts(self) -> list[Dropout]:
        """The dropout layers in call order."""
        return [self.output_dropout]

    def spaced(self):
        """Returns kernel and bias of both products; see `spaced_kernels`."""
        wide = spaced_kernels.space(
            self.intermediate.kernel, self.intermediate.bias
        )
        # The activations of appended columns meet rows of zeros.
        kernel = spaced_kernels.append_rows(
            self.output_dense.kernel, wide[0].shape[1]
        )
        return wide, spaced_kernels.space(kernel, self.output_dense.bias)

    def call(self, rows, training=False, spaced=None):
        """Maps `[rows, hidden]` to the same shape.

        Args:
          rows: `[rows, hidden]`.
          training: whether to apply dropout.
          spaced: the output of `spaced`, or None.
        """
        if spaced is None:
            output = self.output_dense(self.intermediate(rows))
        else:
            wide, narrow = spaced
            output = self.intermediate.activation(product(rows, *wide))
            output = spaced_kernels.first_columns(
                product(output, *narrow), self.config.hidden_size
            )
        output = self.output_dropout(output, training=training)
        return self.layer_norm(output + rows)


class SharedStack(keras.layers.Layer):
    """L layers of `inner_group_num` post-LN blocks each.

    Layer l belongs to group `l * G // L`. The attention (or feed-forward) half
    of inner block i has one set of weights per group if `config.sharing`
    includes it, and one per layer otherwise:

        group_<g>/inner_<i>/attention      shared by the layers of group g
        layer_<l>/inner_<i>/feed_forward   not shared

    A LayerNorm belongs to the half that precedes it. `sharing="all"` with G
    groups is Google's `num_hidden_groups`; "none" is BERT.

    Args:
      config: the architecture.
      rematerialize: whether to keep only the inputs of blocks in training, and
        to recompute each block in the backward pass.
      **kwargs: `name` and `dtype` of `keras.layers.Layer`.

    Attributes:
      space_kernels: whether `spaced_kernels` may be used. False in graphs for
        other runtimes, which lay out matrices themselves.
    """

    def __init__(
        self, config: AlbertConfig, rematerialize: bool = False, **kwargs
    ):
        super().__init__(**kwargs)
        self.config = config
        self.rematerialize = rematerialize
        self.space_kernels = True
        attention_of = config.block_scopes("attention")
        ffn_of = config.block_scopes("ffn")
        self._attention_scopes = list(dict.fromkeys(attention_of))
        self._ffn_scopes = list(dict.fromkeys(ffn_of))
        # One entry per set of weights, in flat lists that Keras can save.
        self.attentions = [
            SelfAttention(config, name="attention", dtype=self.dtype_policy)
            for _ in self._attention_scopes
        ]
        self.feed_forwards = [
            FeedForward(config, name="feed_forward", dtype=self.dtype_policy)
            for _ in self._ffn_scopes
        ]
        # Indices of the sets that each of the L * inner_group_num blocks uses.
        self._blocks = [
            (self._attention_scopes.index(a), self._ffn_scopes.index(f))
            for a, f in zip(attention_of, ffn_of, strict=True)
        ]

    @contextlib.contextmanager
    def first_layers(self, depth: int) -> Iterator[None]:
        """Runs only the first `depth` layers during the block."""
        blocks = list(self._blocks)
        self._blocks = blocks[: depth * self.config.inner_group_num]
        try:
            yield
        finally:
            self._blocks = blocks

    def build(self, input_shape=None):
        """Creates the sets of weights, each in its scope."""
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
          positions: `[batch, picks]`, the positions that the last block
            computes, or None for all.
          training: whether to apply dropout.
          output_attentions: whether to return the attention probabilities.
            Blocks are then not rematerialized.
          first_block: index of the first block to run; -1 is the last one.

        Returns:
          A list with `[rows, hidden]` for each block; `[batch * picks, hidden]`
          for the last one with `positions`. With `output_attentions`, a pair of
          this list and a list of float32 `[batch, heads, queries, seq]`, whose
          values from padding are undefined.
        """
        blocks = self._blocks[first_block:]
        attention_uses = collections.Counter(a for a, _ in blocks)
        ffn_uses = collections.Counter(f for _, f in blocks)
        # To read and space a kernel pays off if several blocks share it.
        space = self.space_kernels and spaced_kernels.is_applicable(training)
        products = {
            a: self.attentions[a].products(spaced=space and count > 1)
            for a, count in attention_uses.items()
        }
        spaced_ffns = {
            f: self.feed_forwards[f].spaced()
            for f, count in ffn_uses.items()
            if space and count > 1
        }
        run = self._run
        # Without training, nothing is kept for a backward pass anyway.
        if self.rematerialize and training and not output_attentions:
            run = self._run_rematerialized
        outputs, attentions = [], []
        for number, (a, f) in enumerate(blocks, start=1):
            last = number == len(blocks)
            rows, probs = run(
                self.attentions[a],
                self.feed_forwards[f],
                rows,
                products[a],
                layout=layout,
                positions=positions if last else None,
                training=training,
                output_attentions=output_attentions,
                spaced_ffn=spaced_ffns.get(f),
            )
            outputs.append(rows)
            attentions.append(probs)
        return (outputs, attentions) if output_attentions else outputs

    def _run(
        self,
        attention,
        feed_forward,
        rows,
        products,
        training,
        output_attentions,
        spaced_ffn=None,
        **arguments,
    ):
        """Runs a block; returns its rows, and its attentions or None."""
        rows = attention(
            rows,
            products=products,
            training=training,
            output_attentions=output_attentions,
            **arguments,
        )
        rows, probs = rows if output_attentions else (rows, None)
        return feed_forward(rows, training=training, spaced=spaced_ffn), probs

    def _run_rematerialized(
        self, attention, feed_forward, rows, products, **arguments
    ):
        seed, first = reserve_seeds(
            [*attention.dropouts, *feed_forward.dropouts]
        )
        fused, output = products

        def run(rows, kernel, bias, seed):
            again = (kernel, bias), output
            with dropout_seeds(seed, first):
                rows, _ = self._run(
                    attention, feed_forward, rows, again, **arguments
                )
                return rows

        # Query, key and value are part of `fused`.
        variables = [
            *attention.output_dense.weights,
            *attention.layer_norm.weights,
            *feed_forward.weights,
        ]
        return rematerialize(run, (rows, *fused), variables, seed), None


def rematerialize(
    function: Callable,
    inputs: Sequence,
    variables: Sequence[keras.Variable],
    seed=None,
):
    """Calls `function(*inputs, seed)`, and recomputes it in the backward pass.

    Only the inputs are kept until then (arXiv:1604.06174). `keras.remat` cannot
    be used: on TensorFlow, it does not support keyword arguments, has no
    gradient for captured tensors, and copies all inputs, including weights.

    Args:
      function: takes `inputs` and `seed`, and returns one tensor. It must
        depend only on them and on `variables`, and change no state.
      inputs: float tensors. All large intermediate results, except for dropout
        masks, must depend on the first.
      variables: all variables that the function reads.
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

    # The variables' values are inputs as well, so that their reads are outside
    # and are differentiated there, with any strategy.
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

        # stop_gradient, so that no outer tape keeps intermediate results.
        return run([tf.stop_gradient(x) for x in tensors], seed), backward

    # Without autocast, as a cast copy would be kept for each block. Keras has
    # no public API for this.
    with AutocastScope(None):
        weights = [tf.convert_to_tensor(v.value) for v in variables]
    return forward(*map(ops.convert_to_tensor, inputs), *weights)


def _after(upstream, rows, seed):
    """Makes rows and seed, unchanged, depend on the upstream gradient.

    Otherwise, TensorFlow might recompute the activations immediately, or merge
    the two computations, and keep the results. Control dependencies do not
    suffice, as XLA drops them.
    """
    import tensorflow as tf

    probe = tf.reshape(upstream, [-1])[:1]
    # One value (none for an empty batch). XLA cannot know that it is finite.
    broken = tf.reduce_any(tf.math.is_nan(probe))
    rows = tf.where(broken, tf.cast(float("nan"), rows.dtype), rows)
    if seed is not None:
        seed = tf.where(broken, tf.zeros_like(seed), seed)
    return rows, seed
