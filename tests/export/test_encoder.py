import json

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from albert_tf.exporting.check_program import compare, difference
from albert_tf.exporting.encoder import export_encoder
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrainer import AlbertPretrainer


@pytest.fixture(scope="module")
def heads(pretrainer, inputs):
    """Inputs with masked positions, and the outputs of the pretrainer."""
    positions = np.array([[1, 11, 4], [2, 0, 0], [0, 0, 0], [7, 3, 0]], "int32")
    with_positions = {**inputs, "masked_lm_positions": positions}
    return with_positions, pretrainer(with_positions)


@pytest.mark.parametrize("path", ["encoder_path", "packed_path"])
def test_all_outputs_are_those_of_the_model(
    request, path, pretrainer, inputs, heads
):
    loaded = tf.saved_model.load(request.getfixturevalue(path))
    # Packed models return zeros for padding.
    real = inputs["input_mask"][:, :, None] if "packed" in path else 1.0
    with_positions, expected_heads = heads
    found, expected = loaded(inputs), pretrainer.encoder(inputs)
    compare(found, {"pooled_output": expected["pooled_output"]})
    for ours, theirs in zip(
        found["encoder_outputs"], expected["encoder_outputs"], strict=True
    ):
        difference(ours, theirs * real, "encoder_outputs")
    mlm, sop = loaded.mlm(with_positions), loaded.sop(inputs)
    for outputs in (mlm, sop):
        compare(outputs, {"pooled_output": expected["pooled_output"]})
    compare(mlm, {"mlm_logits": expected_heads["mlm_logits"]})
    compare(sop, {"sop_logits": expected_heads["sop_logits"]})


def test_without_heads_and_without_tokenizer(pretrainer, inputs, tmp_path):
    export_encoder(pretrainer.encoder, tmp_path / "e", tokenizer=None)
    loaded = tf.saved_model.load(tmp_path / "e")
    for name in ("mlm", "sop", "sp_model_file", "do_lower_case"):
        assert not hasattr(loaded, name)
    expected = pretrainer.encoder(inputs)["pooled_output"]
    compare(loaded(inputs), {"pooled_output": expected})
    manifest = json.loads((tmp_path / "e" / "export.json").read_text())
    assert manifest["tokenizer"] is None


@pytest.mark.long
def test_a_pretrainer_without_sentence_order(config, inputs, tmp_path):
    model = AlbertPretrainer(
        config.replace(embedding_size=16, project_equal_sizes=True),
        sop_head=False,
    )
    export_encoder(model, tmp_path / "e", tokenizer=None)
    loaded = tf.saved_model.load(tmp_path / "e")
    assert not hasattr(loaded, "sop")
    positions = np.array([[1, 2]] * 4, "int32")
    with_positions = {**inputs, "masked_lm_positions": positions}
    expected = model(with_positions)["mlm_logits"]
    compare(loaded.mlm(with_positions), {"mlm_logits": expected})
    manifest = json.loads((tmp_path / "e" / "export.json").read_text())
    assert manifest["weights"] == [w.path for w in model.weights]


@pytest.mark.long
def test_other_sharing_and_precision(config, inputs, tmp_path):
    model = AlbertEncoder(
        config.replace(
            sharing="attention",
            inner_group_num=2,
            embedding_size=16,  # E == H: no projection
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        ),
        dtype="mixed_bfloat16",
    )
    model.trainable = False
    export_encoder(model, tmp_path / "e", tokenizer=None)
    loaded = tf.saved_model.load(tmp_path / "e")
    # float32 and trainable, unlike the model.
    outputs = loaded(inputs, training=True)
    assert outputs["sequence_output"].dtype == tf.float32
    assert len(outputs["encoder_outputs"]) == 4
    assert len(loaded.trainable_variables) == len(model.weights)
    np.testing.assert_allclose(
        outputs["pooled_output"],
        tf.cast(model(inputs)["pooled_output"], tf.float32),
        atol=0.03,  # bfloat16 has 8 bits
    )
    again = loaded(inputs, training=True)
    np.testing.assert_array_equal(
        outputs["pooled_output"], again["pooled_output"]
    )


def test_the_source_model_does_not_change(pretrainer, packed_path, inputs):
    before = [weight.numpy() for weight in pretrainer.weights]
    loaded = tf.saved_model.load(packed_path)
    for variable in loaded.variables:
        variable.assign_add(tf.ones_like(variable))
    for weight, value in zip(pretrainer.weights, before, strict=True):
        np.testing.assert_array_equal(weight, value)
    assert not pretrainer.encoder.packed


def test_endpoints_share_graphs_and_need_no_keras(encoder_path):
    content = (encoder_path / "saved_model.pb").read_bytes()
    assert b"_tf_keras" not in content
    # The root, heads, signature and `call_training` call the same two graphs,
    # with and without dropout, which alone look up words.
    saved = saved_model_pb2.SavedModel.FromString(content)
    bodies = [
        function.signature.name
        for function in saved.meta_graphs[0].graph_def.library.function
        if any("Gather" in node.op for node in function.node_def)
        and "_encode_" in function.signature.name
    ]
    assert len(bodies) == 2, bodies
