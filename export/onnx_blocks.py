"""Embeddings and blocks as ONNX nodes.

They are written in a form in which ONNX Runtime and OpenVINO recognize
LayerNorm, GELU and attention: states are `[batch, seq, hidden]`, and query, key
and value are separate products.
"""

from __future__ import annotations

import math
from typing import Any

from albert_tf.config import AlbertConfig
from albert_tf.models.encoder import AlbertEncoder

_MASKED_SCORE = -10000.0


def write_blocks(graph: Any, encoder: AlbertEncoder, node) -> None:
    """Writes embeddings and blocks in place of their placeholder.

    Args:
      graph: an `onnx_graph.GraphBuilder`.
      encoder: the encoder to write.
      node: the placeholder node, see `onnx_graph`.
    """
    config = encoder.config
    ids, mask, types, *positions = node.input
    root = encoder.embeddings.word_embeddings.path.rsplit("/", 2)[0]
    states = _embeddings(graph, f"{root}/embeddings", config, ids, types)
    if encoder.embedding_projection is not None:
        states = _dense(graph, f"{root}/embedding_projection", states)
    bias = _attention_bias(graph, mask)
    picks = None
    if positions:
        picks = graph.add("Cast", *positions, to=graph.INT64)
        picks = graph.add("Unsqueeze", picks, graph.integers(-1))
    scopes = zip(
        config.block_scopes("attention"),
        config.block_scopes("ffn"),
        node.output,
        strict=True,
    )
    for (outer, inner), ffn, output in scopes:
        attention = f"{root}/transformer/{outer}/{inner}/attention"
        feed_forward = f"{root}/transformer/{'/'.join(ffn)}/feed_forward"
        last = output == node.output[-1]
        queries = states
        if last and picks is not None:
            # The head reads no other positions.
            queries = graph.add("GatherND", states, picks, batch_dims=1)
        context = _attention(graph, attention, config, queries, states, bias)
        context = _dense(graph, f"{attention}/output", context)
        states = graph.add("Add", context, queries)
        states = _layer_norm(graph, f"{attention}/layer_norm", config, states)
        wide = _dense(graph, f"{feed_forward}/intermediate", states)
        wide = _ACTIVATIONS[config.hidden_act](graph, wide)
        narrow = _dense(graph, f"{feed_forward}/output", wide)
        states = graph.add("Add", narrow, states)
        states = _layer_norm(
            graph, f"{feed_forward}/layer_norm", config, states, output
        )


def _embeddings(graph, path: str, config: AlbertConfig, ids, types):
    """Maps ids and types `[batch, seq]` to `[batch, seq, embedding_size]`."""
    words = graph.add("Gather", graph.weight(f"{path}/word_embeddings"), ids)
    segments = graph.add(
        "Gather", graph.weight(f"{path}/token_type_embeddings"), types
    )
    length = graph.add("Shape", ids, start=1, end=2)
    zero = graph.integers(0)
    table = graph.weight(f"{path}/position_embeddings")
    positions = graph.add("Slice", table, zero, length, zero)
    longest = config.max_position_embeddings
    # If inputs are too long, the runtime's error has the name of this node.
    name = f"input_word_ids_is_longer_than_max_position_embeddings_{longest}"
    words = graph.add("Add", words, positions, name=name)
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


def _attention(graph, path: str, config: AlbertConfig, queries, states, bias):
    """Returns the attention's output, `[batch, queries, hidden]`."""
    heads = config.num_attention_heads
    size = config.hidden_size // heads
    by_head = graph.integers(0, 0, heads, size)

    def project(name, inputs, axes):
        outputs = _dense(graph, f"{path}/{name}", inputs)
        outputs = graph.add("Reshape", outputs, by_head)
        return graph.add("Transpose", outputs, perm=axes)

    query = project("query", queries, [0, 2, 1, 3])
    key = project("key", states, [0, 2, 3, 1])
    value = project("value", states, [0, 2, 1, 3])
    scores = graph.add(
        "Div", graph.add("MatMul", query, key), graph.scalar(math.sqrt(size))
    )
    probs = graph.add("Softmax", graph.add("Add", scores, bias), axis=-1)
    context = graph.add("MatMul", probs, value)
    context = graph.add("Transpose", context, perm=[0, 2, 1, 3])
    return graph.add(
        "Reshape", context, graph.integers(0, 0, config.hidden_size)
    )


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
