"""The stack of blocks whose layers share weights (paper, section 3.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import keras
from keras import ops
from keras.src.backend.common.variables import AutocastScope

from albert_tf.config import AlbertConfig
from albert_tf.layers.attention import SelfAttention
from albert_tf.layers.core import LayerNorm, activation, dense
from albert_tf.layers.dropout import Dropout, dropout_seeds, reserve_seeds


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


def rematerialize(
    function: Callable,
    inputs: Sequence,
    variables: Sequence[keras.Variable],
    seed=None,
):
    """Returns `function(*inputs, seed)`; its backward pass runs it once more.

    Of the call, only the inputs are kept until the backward pass
    (arXiv:1604.06174). `keras.remat` does not serve here: on TensorFlow it
    takes no keyword arguments, passes no gradient to tensors that the function
    closes over, and copies every input, the weights included.

    Args:
      function: takes `inputs` and `seed`, returns one tensor. It must be a
        function of them and of `variables`: no state that it changes, and no
        gradient through other tensors that it closes over.
      inputs: float tensors; the first is the one that all of the function's
        large intermediate results depend on, apart from what `seed` makes.
      variables: all those that the function reads.
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

    # The function is given the weights as inputs too, as values: then reading
    # them is differentiated where it happens, outside, whatever the strategy.
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

        # Stopped: outside, no tape is to keep what happens within.
        return run([tf.stop_gradient(x) for x in tensors], seed), backward

    # As they are stored: a cast copy would be kept for each block. Keras has no
    # public way to ask for that.
    with AutocastScope(None):
        weights = [tf.convert_to_tensor(v.value) for v in variables]
    return forward(*map(ops.convert_to_tensor, inputs), *weights)


def _after(upstream, rows, seed):
    """Makes rows and seed, as they are, depend on the upstream gradient.

    Else TensorFlow would compute the activations again at once, or merge the
    second computation with the first, and keep them all. A control dependency
    would not do: XLA drops it.
    """
    import tensorflow as tf

    probe = tf.reshape(upstream, [-1])[:1]
    # One value, or none of an empty batch. XLA cannot know that it is finite.
    broken = tf.reduce_any(tf.math.is_nan(probe))
    rows = tf.where(broken, tf.cast(float("nan"), rows.dtype), rows)
    if seed is not None:
        seed = tf.where(broken, tf.zeros_like(seed), seed)
    return rows, seed
