"""Architectures inferred from stored TensorFlow graphs.

Shared weights do not show the depth of a model, and 2-D kernels do not show the
number of heads; the graph that was saved with them does.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import re
from collections.abc import Iterable, Iterator
from typing import TypeVar

from google.protobuf import message
from tensorflow.core.framework import node_def_pb2
from tensorflow.core.protobuf import (
    meta_graph_pb2,
    saved_object_graph_pb2,
    struct_pb2,
)
from tensorflow.python.framework import tensor_util

from albert_tf.errors import InputError
from albert_tf.input_files import read_bytes
from albert_tf.wire_format import fields_of

M = TypeVar("M", bound=message.Message)

# Limits far above what the nodes of interest need.
_MAX_MESSAGE = 1 << 20  # bytes
_MAX_MESSAGES = 1_000_000
_MAX_DIGITS = 9
_MAX_RANK = 8
_MAX_NUMBER = 1 << 31

_LAYER = re.compile(r"/layer_(\d+)/inner_group_\d+/")
_QUERY = re.compile(r"/self/query/Reshape(_\d+)?/shape$")
# From TensorFlow 1.15 on, the rate is a separate constant.
_RATE = re.compile(r"dropout(_\d+)?/(rate|GreaterEqual/y)$")
_IN_ATTENTION = re.compile(r"(/self|self_attention)/dropout")
# Dropout in Model Garden's block: after attention and after the feed-forward.
_BLOCK_DROPOUT = re.compile(r"(?:^|/)transformer/(dropout(?:_\d+)?)/")
_FEED_FORWARD = re.compile(r"ffn_1/|transformer")


@dataclasses.dataclass(frozen=True)
class GraphFacts:
    """Config fields found in a graph; None for those that are not in it."""

    num_hidden_layers: int | None = None
    num_attention_heads: int | None = None
    hidden_act: str | None = None
    hidden_dropout_prob: float | None = None
    attention_probs_dropout_prob: float | None = None

    def known(self) -> dict[str, int | float | str]:
        """Returns the fields that were found."""
        fields = dataclasses.asdict(self)
        return {k: v for k, v in fields.items() if v is not None}


def read_saved_model(folder: str | os.PathLike[str]) -> list[MetaGraph]:
    """Reads the graphs of `saved_model.pb`."""
    path = os.path.join(os.fspath(folder), "saved_model.pb")
    content = memoryview(read_bytes(path))
    with _damaged(path):
        metas = _messages(content, 2)
        return [MetaGraph(meta, path) for meta in metas]


class MetaGraph:
    """A serialized `MetaGraphDef` whose messages are parsed one by one.

    Parsed at once, a graph may take fifty times its size in memory, and a
    constant may claim any size.
    """

    def __init__(self, content: memoryview, path: str):
        self._content, self._path = content, path

    def _parsed(self, kind: type[M], *fields: int) -> Iterator[M]:
        with _damaged(self._path):
            found = _messages(self._content, *fields)
            for part in itertools.islice(found, _MAX_MESSAGES):
                if len(part) <= _MAX_MESSAGE:
                    yield kind.FromString(bytes(part))
            if next(found, None) is not None:
                raise ValueError("it has too many parts")

    def nodes(self) -> Iterator[node_def_pb2.NodeDef]:
        """Yields the nodes of the graph and of its functions."""
        yield from self._parsed(node_def_pb2.NodeDef, 2, 1)
        yield from self._parsed(node_def_pb2.NodeDef, 2, 2, 1, 3)

    def operations(
        self, pattern: re.Pattern[str]
    ) -> Iterator[tuple[str, set[str], bool]]:
        """Yields the operations of the graph and of each of its functions.

        Each is the name of the function, "" for the graph itself; the names of
        its operations; and whether it refers to another function whose name
        matches the pattern.
        """
        with _damaged(self._path):
            yield "", _texts(self._content, 2, 1, 2), False
            for function in _messages(self._content, 2, 2, 1):
                name = " ".join(sorted(_texts(function, 1, 1)))
                text = bytes(function).decode("utf-8", "replace")
                others = {match[0] for match in pattern.finditer(text)}
                yield name, _texts(function, 3, 2), bool(others - {name})

    def objects_mention(self, pattern: re.Pattern[str]) -> bool:
        """Returns whether the object graph refers to functions of a pattern.

        Without an object graph, signatures are parts of the graph itself.
        """
        with _damaged(self._path):
            objects = [bytes(x) for x in _messages(self._content, 7)]
        text = b"".join(objects).decode("utf-8", "replace")
        return not objects or bool(pattern.search(text))

    def signatures(self) -> dict[str, meta_graph_pb2.SignatureDef]:
        """Returns name -> signature."""
        entry = meta_graph_pb2.MetaGraphDef.SignatureDefEntry
        return {e.key: e.value for e in self._parsed(entry, 5)}

    def output_signatures(self) -> Iterator[struct_pb2.StructuredValue]:
        """Yields the output signatures of a TF2 model's functions."""
        entry = saved_object_graph_pb2.SavedObjectGraph.ConcreteFunctionsEntry
        for function in self._parsed(entry, 7, 2):
            yield function.value.output_signature


def facts_of_meta_graph_file(path: str | os.PathLike[str]) -> GraphFacts:
    """Infers the architecture from the `.meta` file of a TF1 checkpoint."""
    path = os.fspath(path)
    graph = MetaGraph(memoryview(read_bytes(path)), path)
    return facts_of_nodes(graph.nodes())


def facts_of_saved_model(graphs: Iterable[MetaGraph]) -> GraphFacts:
    """Infers the architecture from the graphs of a SavedModel."""
    graphs = list(graphs)
    facts = facts_of_nodes(node for graph in graphs for node in graph.nodes())
    if facts.num_hidden_layers is None:
        layers = _encoder_outputs(graphs)
        facts = dataclasses.replace(facts, num_hidden_layers=layers)
    return facts


def lower_cases_text(graphs: Iterable[MetaGraph]) -> bool | None:
    """Returns `do_lower_case` of a TF1 module, or None if it has none."""
    for graph in graphs:
        signature = graph.signatures().get("tokenization_info")
        if signature is None:
            continue
        tensor = signature.outputs["do_lower_case"].name.removesuffix(":0")
        for node in graph.nodes():
            if tensor and node.name == tensor and node.op == "Const":
                return bool(_constant(node)[0])
    return None


def facts_of_nodes(nodes: Iterable[node_def_pb2.NodeDef]) -> GraphFacts:
    """Infers the architecture from a graph of Google's or Model Garden's."""
    layers, heads, acts = set(), set(), set()
    rates = {"hidden": set(), "attention": set()}
    block_dropouts = set()
    for node in nodes:
        name, op = node.name, node.op
        if match := _LAYER.search(name):
            layers.add(int(match[1][:_MAX_DIGITS]))
        if op in ("Relu", "Erf", "Pow") and _FEED_FORWARD.search(name):
            acts.add(op)
        elif op == "Const" and _QUERY.search(name):
            heads.add(int(_constant(node, 2)[-2]))
        elif op == "Const" and _RATE.search(name):
            where = "attention" if _IN_ATTENTION.search(name) else "hidden"
            rates[where].add(round(float(_constant(node)[0]), 6))
            if match := _BLOCK_DROPOUT.search(name):
                block_dropouts.add(match[1])
    if block_dropouts and rates["attention"]:
        # Model Garden applies the attention rate to the attention's output.
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


def _only(values: set):
    return values.pop() if len(values) == 1 else None


def _constant(node: node_def_pb2.NodeDef, length: int = 1) -> list:
    """Returns the values of a constant: a scalar or a short vector.

    It has at least `length` values. A tensor of a single value may claim any
    size.
    """
    tensor = node.attr["value"].tensor
    sizes = [dim.size for dim in tensor.tensor_shape.dim]
    if not sizes or len(sizes) == 1 and length <= sizes[0] <= _MAX_RANK:
        with contextlib.suppress(TypeError, ValueError, KeyError):
            values = tensor_util.MakeNdarray(tensor).ravel().tolist()
            if len(values) >= length and all(
                isinstance(x, (int, float)) and abs(x) < _MAX_NUMBER
                for x in values
            ):
                return values
    raise InputError(
        f"the graph's constant {node.name[:120]} is not the scalar or shape "
        "expected in an ALBERT"
    )


def _encoder_outputs(graphs: Iterable[MetaGraph]) -> int | None:
    """Returns the number of layer outputs that a TF2 encoder returns."""
    signatures = (x for graph in graphs for x in graph.output_signatures())
    return next(filter(None, map(_count_outputs, signatures)), None)


def _count_outputs(value) -> int | None:
    kind = value.WhichOneof("kind")
    if kind == "tuple_value":
        counts = map(_count_outputs, value.tuple_value.values)
        return next(filter(None, counts), None)
    if kind == "dict_value":
        outputs = value.dict_value.fields.get("encoder_outputs")
        kind = outputs and outputs.WhichOneof("kind")
        if kind in ("list_value", "tuple_value"):
            return len(getattr(outputs, kind).values)
    return None


@contextlib.contextmanager
def _damaged(path: str) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except (ValueError, message.DecodeError) as error:
        raise InputError(f"{path} is damaged: {error}") from None


def _messages(content: memoryview, *fields: int) -> Iterator[memoryview]:
    """Yields the serialized messages at a path of field numbers."""
    for number, inside in fields_of(content):
        if number == fields[0]:
            if fields[1:]:
                yield from _messages(inside, *fields[1:])
            else:
                yield inside


def _texts(content: memoryview, *fields: int) -> set[str]:
    """Returns the distinct strings at a path of field numbers."""
    return {bytes(x).decode() for x in _messages(content, *fields)}
