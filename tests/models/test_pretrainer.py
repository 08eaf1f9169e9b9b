import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrainer import AlbertPretrainer

CONFIG = AlbertConfig(
    vocab_size=40,
    embedding_size=8,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=16,
)


def batch():
    ids = np.random.default_rng(0).integers(5, 40, (3, 10)).astype("int32")
    return {
        "input_word_ids": ids,
        "input_mask": np.ones_like(ids),
        "input_type_ids": np.zeros_like(ids),
        "masked_lm_positions": np.array([[1, 5], [2, 0], [9, 8]], "int32"),
    }


def test_contract_and_tying():
    model = AlbertPretrainer(CONFIG)
    outputs = model(batch())
    assert outputs["mlm_logits"].shape == (3, 2, 40)
    assert outputs["sop_logits"].shape == (3, 2)
    # Only the head's own weights come on top: the output matrix is the table.
    extra = {v.path for v in model.trainable_variables} - {
        v.path for v in model.encoder.trainable_variables
    }
    assert extra == {
        "mlm_head/dense/kernel",
        "mlm_head/dense/bias",
        "mlm_head/layer_norm/gamma",
        "mlm_head/layer_norm/beta",
        "mlm_head/output_bias",
        "sop_head/kernel",
        "sop_head/bias",
    }
    before = np.asarray(outputs["mlm_logits"])
    model.encoder.word_embeddings.assign(
        np.asarray(model.encoder.word_embeddings)[::-1]
    )
    assert np.abs(np.asarray(model(batch())["mlm_logits"]) - before).max() > 0


def test_wraps_an_encoder():
    encoder = AlbertEncoder(CONFIG)
    assert AlbertPretrainer(CONFIG, encoder=encoder).encoder is encoder
    with pytest.raises(ValueError, match="another config"):
        AlbertPretrainer(CONFIG.replace(vocab_size=41), encoder=encoder)


def test_without_sentence_order():
    model = AlbertPretrainer(CONFIG, sop_head=False)
    outputs = model(batch())
    assert set(outputs) == {"mlm_logits", "pooled_output"}
    paths = {v.path for v in AlbertPretrainer(CONFIG).weights}
    assert paths - {v.path for v in model.weights} == {
        "sop_head/kernel",
        "sop_head/bias",
    }


def test_without_pooler():
    model = AlbertPretrainer(CONFIG, sop_head=False, pooler=False)
    assert not any("pooler" in v.path for v in model.weights)
    whole = AlbertPretrainer(CONFIG)
    values = {v.path: v for v in whole.weights}
    for variable in model.weights:
        variable.assign(values[variable.path])
    outputs = model(batch())
    assert set(outputs) == {"mlm_logits"}
    np.testing.assert_allclose(
        outputs["mlm_logits"], whole(batch())["mlm_logits"], atol=1e-6
    )


def test_contradictions_are_refused():
    with pytest.raises(InputError, match="pooler=False must go with sop_head"):
        AlbertPretrainer(CONFIG, pooler=False)
    encoder = AlbertEncoder(CONFIG, pooler=False)
    with pytest.raises(InputError, match="pooler=True, but encoder was made"):
        AlbertPretrainer(CONFIG, sop_head=False, encoder=encoder)
    model = AlbertPretrainer(
        CONFIG, sop_head=False, pooler=False, encoder=encoder
    )
    assert model.encoder is encoder
