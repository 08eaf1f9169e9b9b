"""Embeddings and blocks as ONNX nodes.

They are written in a form in which ONNX Runtime and OpenVINO recognize
LayerNorm and GELU, and, for padded states, attention: query, key and value are
separate products. As in the model (`layers.token_rows`), states have one of two
layouts: padded, `[batch, seq, hidden]`, or packed, `[tokens, hidden]`.
"""

from __future__ import annotations

import math
from typing import Any

from albert_tf.config import AlbertConfig
from albert_tf.models.encoder import AlbertEncoder

_MASKED_SCORE = -10000.0


def write_blocks(
    graph: Any,
    encoder: AlbertEncoder,
    node: Any,
    *,
    packed: bool = False,
) -> None:
    """Writes embeddings and blocks in place of their placeholder.

    Args:
      graph: an `onnx_graph.GraphBuilder`.
      encoder: the encoder to write.
      node: the placeholder node, see `onnx_graph`.
      packed: whether to remove padding before the embeddings; see
        `AlbertEncoder`.
    """
    config = encoder.config
    ids, mask, types, *positions = node.input
    root = encoder.embeddings.word_embeddings.path.rsplit("/", 2)[0]
    padded = _PaddedStates(graph)
    layout = _PackedStates(graph, mask) if packed else padded
    states = _embeddings(graph, root, config, ids, types, layout)
    if encoder.embedding_projection is not None:
        states = _dense(graph, f"{root}/embedding_projection", states)
    bias = _attention_bias(graph, mask)
    scopes = zip(
        config.block_scopes("attention"),
        config.block_scopes("ffn"),
        node.output,
        strict=True,
    )
    for (outer, inner), ffn, output in scopes:
        attention = f"{root}/transformer/{outer}/{inner}/attention"
        feed_forward = f"{root}/transformer/{'/'.join(ffn)}/feed_forward"
        queries, keys = (states, layout), (states, layout)
        if output == node.output[-1] and positions:
            # The head reads no other positions.
            queries = (layout.take(states, *positions), padded)
        context = _attention(graph, attention, config, queries, keys, bias)
        context = _dense(graph, f"{attention}/output", context)
        states, layout = queries
        states = graph.add("Add", context, states)
        states = _layer_norm(graph, f"{attention}/layer_norm", config, states)
        wide = _dense(graph, f"{feed_forward}/intermediate", states)
        wide = _ACTIVATIONS[config.hidden_act](graph, wide)
        narrow = _dense(graph, f"{feed_forward}/output", wide)
        states = graph.add("Add", narrow, states)
        name = "" if isinstance(layout, _PackedStates) else output
        states = _layer_norm(
            graph, f"{feed_forward}/layer_norm", config, states, name
        )
        if isinstance(layout, _PackedStates):
            layout.restore(states, output)


class _PaddedStates:
    """States `[batch, seq, hidden]`.

    Args:
      graph: an `onnx_graph.GraphBuilder`.
    """

    def __init__(self, graph):
        self._graph = graph

    def select(self, inputs):
        """Maps an input `[batch, seq]` to its values for the states."""
        return inputs

    def add_positions(self, states, table, name: str):
        """Adds a table `[seq, size]`; `name` is that of the addition."""
        return self._graph.add("Add", states, table, name=name)

    def split_heads(self, states, heads: int, size: int):
        """Maps states to `[batch, seq, heads, size]`."""
        shape = self._graph.integers(0, 0, heads, size)
        return self._graph.add("Reshape", states, shape)

    def merge_heads(self, context, hidden: int):
        """Maps `[batch, seq, heads, size]` to states."""
        shape = self._graph.integers(0, 0, hidden)
        return self._graph.add("Reshape", context, shape)

    def take(self, states, positions):
        """Gathers states at `[batch, picks]` as `[batch, picks, hidden]`."""
        picks = self._graph.add("Cast", positions, to=self._graph.INT64)
        picks = self._graph.add("Unsqueeze", picks, self._graph.integers(-1))
        return self._graph.add("GatherND", states, picks, batch_dims=1)


class _PackedStates:
    """States `[tokens, hidden]` without padding; see `token_rows.PackedRows`.

    Args:
      graph: an `onnx_graph.GraphBuilder`.
      mask: int32 `[batch, seq]`.
    """

    def __init__(self, graph, mask):
        self._graph = graph
        self._flat = graph.integers(-1)
        shape = graph.add("Shape", mask)
        self._length = graph.add("Shape", mask, start=1, end=2)
        mask = graph.add("Cast", mask, to=graph.INT64)
        flat = graph.add("Reshape", mask, self._flat)
        # Token -> position in the flat batch.
        self._tokens = graph.add(
            "Reshape", graph.add("NonZero", flat), self._flat
        )
        # Position -> token; padding maps to any.
        count = graph.add("CumSum", flat, graph.integers(0))
        self._one = graph.integers(1)
        rows = graph.add("Sub", count, self._one)
        rows = graph.add("Max", rows, graph.integers(0))
        self._row_of = graph.add("Reshape", rows, shape)
        visible = graph.add("Cast", mask, to=graph.FLOAT)
        self._visible = graph.add("Unsqueeze", visible, graph.integers(2))

    def select(self, inputs):
        """Maps an input `[batch, seq]` to its values for the states."""
        flat = self._graph.add("Reshape", inputs, self._flat)
        return self._graph.add("Gather", flat, self._tokens)

    def add_positions(self, states, table, name: str):
        """Adds a table `[seq, size]`; `name` is that of an addition.

        It fails if the table is shorter than the input; a lookup of positions
        that do not exist would return zeros in OpenVINO.
        """
        shape = self._graph.add("Concat", self._length, self._one, axis=0)
        zeros = self._graph.add("ConstantOfShape", shape)
        table = self._graph.add("Add", table, zeros, name=name)
        positions = self._graph.add("Mod", self._tokens, self._length)
        rows = self._graph.add("Gather", table, positions)
        return self._graph.add("Add", states, rows)

    def split_heads(self, states, heads: int, size: int):
        """Maps states to `[batch, seq, heads, size]`."""
        shape = self._graph.integers(0, 0, heads, size)
        return self._graph.add("Reshape", self._to_batch(states), shape)

    def merge_heads(self, context, hidden: int):
        """Maps `[batch, seq, heads, size]` to states."""
        shape = self._graph.integers(-1, hidden)
        flat = self._graph.add("Reshape", context, shape)
        return self._graph.add("Gather", flat, self._tokens)

    def take(self, states, positions):
        """Gathers states at `[batch, picks]` as `[batch, picks, hidden]`."""
        picks = self._graph.add("Cast", positions, to=self._graph.INT64)
        rows = self._graph.add("GatherElements", self._row_of, picks, axis=1)
        return self._graph.add("Gather", states, rows)

    def restore(self, states, output: str) -> None:
        """Adds the output `[batch, seq, hidden]`, with zeros for padding."""
        states = self._to_batch(states)
        self._graph.add("Mul", states, self._visible, output=output)

    def _to_batch(self, states):
        """Maps states to `[batch, seq, hidden]`; padding is undefined."""
        return self._graph.add("Gather", states, self._row_of)


def _embeddings(graph, root: str, config: AlbertConfig, ids, types, layout):
    """Maps ids and types `[batch, seq]` to states of `embedding_size`."""
    path = f"{root}/embeddings"
    words = graph.add(
        "Gather", graph.weight(f"{path}/word_embeddings"), layout.select(ids)
    )
    segments = graph.add(
        "Gather",
        graph.weight(f"{path}/token_type_embeddings"),
        layout.select(types),
    )
    length = graph.add("Shape", ids, start=1, end=2)
    zero = graph.integers(0)
    table = graph.weight(f"{path}/position_embeddings")
    positions = graph.add("Slice", table, zero, length, zero)
    longest = config.max_position_embeddings
    # If inputs are too long, the runtime's error has the name of this node.
    name = f"input_word_ids_is_longer_than_max_position_embeddings_{longest}"
    words = layout.add_positions(words, positions, name)
    total = graph.add("Add", words, segments)
    return _layer_norm(graph, f"{path}/layer_norm", config, total)


def _attention_bias(graph, mask):
    """Maps a mask `[batch, seq]` to a bias of scores, `[batch, 1, 1, seq]`."""
    visible = graph.add(
        "Unsqueeze",
        graph.add("Unsqueeze", mask, graph.integers(1)),
        graph.integers(2),
    )
    visible = graph.add("Cast", visible, to=graph.FLOAT)
    hidden = graph.add("Sub", graph.scalar(1.0), visible)
    return graph.add("Mul", hidden, graph.scalar(_MASKED_SCORE))


def _attention(graph, path: str, config: AlbertConfig, queries, keys, bias):
    """Returns the attention's output for the queries.

    `queries` and `keys` are pairs of states and their layout.
    """
    heads = config.num_attention_heads
    size = config.hidden_size // heads

    def project(name, source, axes):
        states, layout = source
        outputs = _dense(graph, f"{path}/{name}", states)
        outputs = layout.split_heads(outputs, heads, size)
        return graph.add("Transpose", outputs, perm=axes)

    query = project("query", queries, [0, 2, 1, 3])
    key = project("key", keys, [0, 2, 3, 1])
    value = project("value", keys, [0, 2, 1, 3])
    scores = graph.add(
        "Div", graph.add("MatMul", query, key), graph.scalar(math.sqrt(size))
    )
    probs = graph.add("Softmax", graph.add("Add", scores, bias), axis=-1)
    context = graph.add("MatMul", probs, value)
    context = graph.add("Transpose", context, perm=[0, 2, 1, 3])
    _, layout = queries
    return layout.merge_heads(context, config.hidden_size)


def _dense(graph, path: str, inputs):
    product = graph.add("MatMul", inputs, graph.weight(f"{path}/kernel"))
    return graph.add("Add", product, graph.weight(f"{path}/bias"))


def _layer_norm(graph, path: str, config: AlbertConfig, inputs, output=""):
    return graph.add(
        "LayerNormalization",
        inputs,
        graph.weight(f"{path}/gamma"),
        graph.weight(f"{path}/beta"),
        output=output,
        axis=-1,
        epsilon=config.layer_norm_eps,
    )


def _gelu_tanh(graph, x):
    # Both runtimes recognize this order of the factors.
    cube = graph.add("Pow", x, graph.scalar(3.0))
    inner = graph.add("Mul", graph.scalar(0.044715), cube)
    inner = graph.add("Add", x, inner)
    inner = graph.add("Mul", graph.scalar(math.sqrt(2 / math.pi)), inner)
    tanh = graph.add("Tanh", inner)
    half = graph.add("Mul", graph.scalar(0.5), x)
    return graph.add("Mul", half, graph.add("Add", graph.scalar(1.0), tanh))


def _gelu_erf(graph, x):
    erf = graph.add("Erf", graph.add("Div", x, graph.scalar(math.sqrt(2.0))))
    erf = graph.add("Add", erf, graph.scalar(1.0))
    return graph.add("Mul", graph.add("Mul", x, erf), graph.scalar(0.5))


# The keys are `albert_tf.config.ACTIVATIONS`.
_ACTIVATIONS = {
    "gelu_tanh": _gelu_tanh,
    "gelu_erf": _gelu_erf,
    "relu": lambda graph, x: graph.add("Relu", x),
    "tanh": lambda graph, x: graph.add("Tanh", x),
    "linear": lambda graph, x: x,
}
