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

LAYER = "bert/encoder/transformer/group_{g}/layer_{n}/inner_group_0/"


def constant(name, value):
    node = node_def_pb2.NodeDef(name=name, op="Const")
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
    return node


def query(layer, heads, prefix=""):
    name = LAYER.format(g=0, n=layer) + "attention_1/self/query/Reshape_1/shape"
    return constant(prefix + name, np.int32([8, 10, heads, 4]))


def activation(op):
    name = LAYER.format(g=0, n=0) + "ffn_1/intermediate/dense/" + op
    return node_def_pb2.NodeDef(name=name, op=op)


@pytest.fixture
def unpacked(stored):
    return lambda name: UnpackedArchive(stored / f"{name}.tar.gz")


def test_facts_of_a_checkpoint_of_the_original(unpacked):
    archive = unpacked("google_tf1")
    facts = facts_of_meta_graph_file(archive.folder / "model.ckpt-best.meta")
    # An inference graph has no dropout.
    assert facts == GraphFacts(2, 2, "gelu_tanh", None, None)
    assert facts.known() == {
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "hidden_act": "gelu_tanh",
    }


def test_facts_of_a_tf_hub_module(unpacked):
    archive = unpacked("tf_hub_1")
    saved_model = read_saved_model(archive.folder)
    facts = facts_of_saved_model(saved_model)
    assert facts == GraphFacts(2, 2, "gelu_tanh", 0.1, 0.2)
    assert lower_cases_text(saved_model) is True


def test_facts_of_a_model_garden_export(unpacked):
    archive = unpacked("tf_hub_2")
    saved_model = read_saved_model(archive.folder)
    facts = facts_of_saved_model(saved_model)
    assert (facts.num_hidden_layers, facts.hidden_act) == (3, "gelu_tanh")
    assert facts.hidden_dropout_prob == 0.1
    assert facts.attention_probs_dropout_prob == 0.1
    assert lower_cases_text(saved_model) is None


@pytest.mark.parametrize("cased", [True, False])
def test_a_cased_module(tmp_path, cased):
    saved_model = saved_model_pb2.SavedModel()
    meta = saved_model.meta_graphs.add()
    outputs = meta.signature_def["tokenization_info"].outputs
    outputs["do_lower_case"].name = "lower:0"
    meta.graph_def.node.append(constant("lower", not cased))
    path = tmp_path / "saved_model.pb"
    path.write_bytes(saved_model.SerializeToString())
    assert lower_cases_text(read_saved_model(tmp_path)) is not cased


def test_a_constant_of_huge_shape_is_an_error(tmp_path):
    """A single value with a shape of 2^40."""
    node = query(0, 3)
    del node.attr["value"].tensor.tensor_shape.dim[:]
    node.attr["value"].tensor.tensor_shape.dim.add(size=1 << 40)
    with pytest.raises(InputError, match="is not the scalar or shape exp"):
        facts_of_nodes([node])


def test_layers_and_heads():
    nodes = [query(layer, 3) for layer in range(12)]
    facts = facts_of_nodes(nodes)
    assert (facts.num_hidden_layers, facts.num_attention_heads) == (12, 3)
    facts = facts_of_nodes(
        [query(n, 3, "module_apply_tokens/") for n in (0, 1)]
    )
    assert (facts.num_hidden_layers, facts.num_attention_heads) == (2, 3)


def test_graphs_without_facts():
    assert facts_of_nodes([]) == GraphFacts()
    two = facts_of_nodes([query(0, 3), query(1, 4)])
    assert two.num_attention_heads is None
    mixed = facts_of_nodes([activation("Relu"), activation("Pow")])
    assert mixed.hidden_act is None


@pytest.mark.parametrize(
    ("op", "expected"),
    [("Relu", "relu"), ("Erf", "gelu_erf"), ("Pow", "gelu_tanh")],
)
def test_activations(op, expected):
    assert facts_of_nodes([activation(op)]).hidden_act == expected


@pytest.mark.parametrize("content", [b"<html></html>", b"\x08\x01\x12\xff\xff"])
def test_damaged(tmp_path, content):
    (tmp_path / "saved_model.pb").write_bytes(content)
    with pytest.raises(InputError, match=r"saved_model\.pb is damaged"):
        read_saved_model(tmp_path)


def test_missing(tmp_path):
    with pytest.raises(InputError, match=r"saved_model\.pb: .*No such file"):
        read_saved_model(tmp_path)
