"""What `save_pretrained` writes, as transformers opens it."""

import numpy as np
import pytest

from albert_tf.finetuning.question_answering.model import (
    AlbertQuestionAnswering,
)
from albert_tf.interop.convert import convert
from albert_tf.interop.convert_config import ConvertConfig
from albert_tf.interop.hubs import resolve
from albert_tf.interop.huggingface import architecture
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrainer import AlbertPretrainer

pytestmark = pytest.mark.peer


def test_same_outputs(config, pair, hf, random_model, random_batch, tmp_path):
    ours = random_model(pair.ours, config, **pair.arguments)
    ours.save_pretrained(tmp_path)
    theirs = hf.open(pair.theirs, tmp_path)
    hf.assert_same(ours, theirs, random_batch(config))
    assert theirs.config.architectures == [pair.theirs]


@pytest.mark.parametrize("packed", [False, True])
def test_same_attentions(
    config, hf, random_model, random_batch, tmp_path, packed
):
    import torch

    random_model(AlbertEncoder, config).save_pretrained(tmp_path)
    ours = AlbertEncoder.from_pretrained(
        tmp_path, packed=packed, output_attentions=True
    )
    theirs, _ = hf.load(
        "AlbertModel",
        tmp_path,
        output_attentions=True,
        attn_implementation="eager",
    )
    batch = random_batch(config)
    with torch.no_grad():
        expected = theirs(**hf.inputs(batch)).attentions
    found = ours(batch)["attentions"]
    # Theirs have numbers where padding looks, ours have zeros.
    real = batch["input_mask"][:, None, :, None]
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y.numpy() * real, atol=2e-5)


def test_what_their_class_lacks_is_said(configs, hf, random_model, tmp_path):
    # That this is seen here shows that the silence in `Peer.open` means that
    # nothing is missing.
    random_model(AlbertEncoder, configs["base"]).save_pretrained(tmp_path)
    _, found = hf.load("AlbertForSequenceClassification", tmp_path)
    assert found["missing_keys"] == {"classifier.weight", "classifier.bias"}
    assert "classifier.weight" in hf.complaints()


def test_a_pooler_beside_a_masked_language_model_is_left(
    configs, hf, random_model, random_batch, our_outputs, tmp_path
):
    """Theirs has none; what it calls unexpected is the pooler alone."""
    config = configs["base"]
    ours = random_model(AlbertPretrainer, config, sop_head=False)
    ours.save_pretrained(tmp_path)
    theirs, found = hf.load("AlbertForMaskedLM", tmp_path)
    assert found["unexpected_keys"] == {
        "albert.pooler.weight",
        "albert.pooler.bias",
    }
    assert not found["missing_keys"]
    batch = random_batch(config)
    outputs = our_outputs(ours, batch)
    del outputs["pooled"]
    hf.assert_same(outputs, theirs, batch)


@pytest.mark.parametrize("sharing", ["attention", "ffn", "none"])
def test_transformers_refuses_other_sharing(
    configs, sharing, hf, random_model, assert_same_weights, tmp_path
):
    config = configs["groups"].replace(sharing=sharing)
    ours = random_model(AlbertPretrainer, config)
    ours.save_pretrained(tmp_path)
    # The class that the config names, and one that is named by the user.
    with pytest.raises(ValueError, match="model type `albert_tf`"):
        hf.load("AutoModel", tmp_path)
    with pytest.raises(ValueError, match="only albert_tf has this archit"):
        hf.load("AlbertForPreTraining", tmp_path)
    again = AlbertPretrainer.from_pretrained(tmp_path)
    assert again.config == config
    assert_same_weights(again, ours)


def test_the_joint_span_head_is_left(
    configs, hf, random_model, random_batch, assert_same_weights, tmp_path
):
    config = configs["groups"]
    ours = random_model(
        AlbertQuestionAnswering, config, head="joint", dropout=0.2
    )
    ours.save_pretrained(tmp_path)
    again = AlbertQuestionAnswering.from_pretrained(tmp_path)
    assert (again.head, again.head_dropout) == ("joint", 0.2)
    assert_same_weights(again, ours)
    # Theirs says that it leaves the head, and reads the encoder.
    theirs, found = hf.load("AutoModel", tmp_path, add_pooling_layer=False)
    assert not found["missing_keys"]
    assert "start_logits.dense.weight" in hf.complaints()
    hf.assert_same(ours.encoder, theirs, random_batch(config))


def test_the_packaged_model_has_the_same_outputs(
    hf, random_batch, our_outputs, tmp_path
):
    """Both its export in float32 and the packaged folder itself."""
    name = "albert_tiny_en"
    convert(ConvertConfig(input=name, output=tmp_path / "export"))
    checkpoint = open_checkpoint(name)
    batch = random_batch(checkpoint.config)
    ours = AlbertPretrainer.from_pretrained(
        name, sop_head="sop_head" in checkpoint.components
    )
    outputs = our_outputs(ours, batch)
    kind = architecture(checkpoint.components)
    if kind == "AlbertForMaskedLM":
        del outputs["pooled"]  # see above
    for folder in (tmp_path / "export", resolve(name)):
        theirs, found = hf.load(kind, folder, dtype="float32")
        assert not found["missing_keys"]
        difference = hf.difference(outputs, theirs, batch)
        # Logits of a trained model are larger than those of the other tests.
        largest = max(np.abs(x).max() for x in outputs.values())
        assert difference < 5e-6 * largest, (difference, largest)
