import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import node_def_pb2
from tensorflow.core.protobuf import saved_model_pb2

from albert_tf.errors import InputError
from albert_tf.interop.archive import UnpackedArchive
from albert_tf.interop.tf_graph import (
    GraphFacts,
    facts_of_meta_graph_file,
    facts_of_nodes,
    facts_of_saved_model,
    lower_cases_text,
    read_saved_model,
)

LAYER = "bert/encoder/transformer/group_0/layer_{}/inner_group_0/"


def constant(name, value):
    node = node_def_pb2.NodeDef(name=name, op="Const")
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
    return node


def query(layer, heads, prefix=""):
    name = LAYER.format(layer) + "attention_1/self/query/Reshape_1/shape"
    return constant(prefix + name, np.int32([8, 10, heads, 4]))


def activation(op):
    name = LAYER.format(0) + "ffn_1/intermediate/dense/" + op
    return node_def_pb2.NodeDef(name=name, op=op)


def test_facts_of_stored_graphs(stored):
    def unpacked(name):
        return UnpackedArchive(stored / f"{name}.tar.gz")

    archive = unpacked("google_tf1")
    facts = facts_of_meta_graph_file(archive.folder / "model.ckpt-best.meta")
    # An inference graph has no dropout.
    assert facts == GraphFacts(2, 2, "gelu_tanh", None, None)
    for name, lower, expected in (
        ("tf_hub_1", True, GraphFacts(2, 2, "gelu_tanh", 0.1, 0.2)),
        ("tf_hub_2", None, GraphFacts(3, None, "gelu_tanh", 0.1, 0.1)),
    ):
        archive = unpacked(name)
        saved_model = read_saved_model(archive.folder)
        assert facts_of_saved_model(saved_model) == expected
        assert lower_cases_text(saved_model) is lower


def test_a_cased_module(tmp_path):
    saved_model = saved_model_pb2.SavedModel()
    meta = saved_model.meta_graphs.add()
    outputs = meta.signature_def["tokenization_info"].outputs
    outputs["do_lower_case"].name = "lower:0"
    meta.graph_def.node.append(constant("lower", False))
    path = tmp_path / "saved_model.pb"
    path.write_bytes(saved_model.SerializeToString())
    assert lower_cases_text(read_saved_model(tmp_path)) is False


@pytest.mark.parametrize(
    ("nodes", "facts"),
    [
        ([], GraphFacts()),
        ([query(n, 3) for n in range(12)], GraphFacts(12, 3)),
        (
            [query(n, 3, "module_apply_tokens/") for n in (0, 1)],
            GraphFacts(2, 3),
        ),
        ([query(0, 3), query(1, 4)], GraphFacts(2)),
        ([activation("Relu")], GraphFacts(1, hidden_act="relu")),
        ([activation("Erf")], GraphFacts(1, hidden_act="gelu_erf")),
        ([activation("Pow")], GraphFacts(1, hidden_act="gelu_tanh")),
        ([activation("Relu"), activation("Pow")], GraphFacts(1)),
    ],
)
def test_facts_of_nodes(nodes, facts):
    assert facts_of_nodes(nodes) == facts


def test_a_constant_of_huge_shape_is_an_error():
    """A single value with a shape of 2^40."""
    node = query(0, 3)
    del node.attr["value"].tensor.tensor_shape.dim[:]
    node.attr["value"].tensor.tensor_shape.dim.add(size=1 << 40)
    with pytest.raises(InputError, match="is not the scalar or shape exp"):
        facts_of_nodes([node])


@pytest.mark.parametrize("content", [b"<html></html>", b"\x08\x01\x12\xff\xff"])
def test_damaged(tmp_path, content):
    (tmp_path / "saved_model.pb").write_bytes(content)
    with pytest.raises(InputError, match=r"saved_model\.pb is damaged"):
        read_saved_model(tmp_path)
