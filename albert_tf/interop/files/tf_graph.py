"""Architectures read from stored TensorFlow graphs.

Weights do not show the depth of a model that shares them, nor, in 2-D kernels,
the number of heads; the graph that was saved with them does.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterable, Iterator

from tensorflow.core.framework import node_def_pb2
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2
from tensorflow.python.framework import tensor_util

from albert_tf.errors import InputError

_LAYER = re.compile(r"/layer_(\d+)/inner_group_\d+/")
_QUERY = re.compile(r"/self/query/Reshape(_\d+)?/shape$")
# The rate is a constant of its own from TensorFlow 1.15 on.
_RATE = re.compile(r"dropout(_\d+)?/(rate|GreaterEqual/y)$")
# Model Garden's block: after attention, and after the feed-forward network.
_BLOCK_DROPOUT = re.compile(r"(?:^|/)transformer/(dropout(?:_\d+)?)/")
_FEED_FORWARD = re.compile(r"ffn_1/|transformer")


@dataclasses.dataclass(frozen=True)
class GraphFacts:
    """Fields of a config that a graph shows; None where it does not."""

    num_hidden_layers: int | None = None
    num_attention_heads: int | None = None
    hidden_act: str | None = None
    hidden_dropout_prob: float | None = None
    attention_probs_dropout_prob: float | None = None

    def known(self) -> dict[str, int | float | str]:
        """Returns the fields that the graph shows."""
        fields = dataclasses.asdict(self)
        return {k: v for k, v in fields.items() if v is not None}


def read_saved_model(folder: str | os.PathLike[str]):
    """Parses `saved_model.pb`.

    Raises:
      InputError: it is missing or damaged.
    """
    return _parse(
        os.path.join(os.fspath(folder), "saved_model.pb"),
        saved_model_pb2.SavedModel,
    )


def facts_of_meta_graph_file(path: str | os.PathLike[str]) -> GraphFacts:
    """Reads the `.meta` file beside a TF1 checkpoint."""
    meta = _parse(os.fspath(path), meta_graph_pb2.MetaGraphDef)
    return facts_of_nodes(meta.graph_def.node)


def facts_of_saved_model(saved_model) -> GraphFacts:
    """Reads the graphs, functions and signatures of a SavedModel."""

    def nodes() -> Iterator[node_def_pb2.NodeDef]:
        for meta in saved_model.meta_graphs:
            yield from meta.graph_def.node
            for function in meta.graph_def.library.function:
                yield from function.node_def

    facts = facts_of_nodes(nodes())
    if facts.num_hidden_layers is None:
        layers = _encoder_outputs(saved_model)
        facts = dataclasses.replace(facts, num_hidden_layers=layers)
    return facts


def lower_cases_text(saved_model) -> bool | None:
    """Returns a TF1 module's `do_lower_case`, if it has one."""
    for meta in saved_model.meta_graphs:
        outputs = meta.signature_def["tokenization_info"].outputs
        tensor = outputs["do_lower_case"].name.removesuffix(":0")
        for node in meta.graph_def.node:
            if tensor and node.name == tensor and node.op == "Const":
                return bool(_constant(node))
    return None


def facts_of_nodes(nodes: Iterable[node_def_pb2.NodeDef]) -> GraphFacts:
    """Reads a graph of the original's, or of Model Garden's encoder."""
    layers, heads, acts = set(), set(), set()
    rates = {"hidden": set(), "attention": set()}
    block_dropouts = set()
    for node in nodes:
        if match := _LAYER.search(node.name):
            layers.add(int(match[1]))
        if node.op in ("Relu", "Erf", "Pow") and _FEED_FORWARD.search(
            node.name
        ):
            acts.add(node.op)
        elif node.op == "Const" and _QUERY.search(node.name):
            heads.add(int(_constant(node)[-2]))
        elif node.op == "Const" and _RATE.search(node.name):
            where = "attention" if _in_attention(node.name) else "hidden"
            rates[where].add(round(float(_constant(node)), 6))
            if match := _BLOCK_DROPOUT.search(node.name):
                block_dropouts.add(match[1])
    if block_dropouts and rates["attention"]:
        # Model Garden drops out what attention adds at the attention's rate.
        others = rates["hidden"] - rates["attention"]
        if others or len(block_dropouts) == 1:
            rates["hidden"] = others or {0.0}
    act = {"Relu": "relu", "Erf": "gelu_erf", "Pow": "gelu_tanh"}
    return GraphFacts(
        num_hidden_layers=max(layers) + 1 if layers else None,
        num_attention_heads=_only(heads),
        hidden_act=act[acts.pop()] if len(acts) == 1 else None,
        hidden_dropout_prob=_only(rates["hidden"]),
        attention_probs_dropout_prob=_only(rates["attention"]),
    )


def _in_attention(name: str) -> bool:
    return "/self/dropout" in name or "self_attention/dropout" in name


def _only(values: set):
    return values.pop() if len(values) == 1 else None


def _constant(node: node_def_pb2.NodeDef):
    return tensor_util.MakeNdarray(node.attr["value"].tensor)


def _encoder_outputs(saved_model) -> int | None:
    """Counts the layers' outputs that a TF2 encoder returns."""
    for meta in saved_model.meta_graphs:
        functions = meta.object_graph_def.concrete_functions
        for function in functions.values():
            count = _count_outputs(function.output_signature)
            if count:
                return count
    return None


def _count_outputs(value) -> int | None:
    kind = value.WhichOneof("kind")
    if kind == "tuple_value":
        counts = [_count_outputs(v) for v in value.tuple_value.values]
        return next(filter(None, counts), None)
    if kind == "dict_value":
        outputs = value.dict_value.fields.get("encoder_outputs")
        if outputs is not None and outputs.WhichOneof("kind") in (
            "list_value",
            "tuple_value",
        ):
            return len(getattr(outputs, outputs.WhichOneof("kind")).values)
    return None


def _parse(path: str, kind):
    try:
        with open(path, "rb") as file:
            return kind.FromString(file.read())
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except Exception as error:  # protobuf's DecodeError, of either runtime
        raise InputError(f"{path} is damaged: {error}") from None
