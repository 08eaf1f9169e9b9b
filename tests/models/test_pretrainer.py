import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrainer import AlbertPretrainer


@pytest.fixture
def inputs(batch):
    positions = np.array([[1, 5], [2, 0], [9, 8], [3, 0]], "int32")
    return {**batch, "masked_lm_positions": positions}


def test_uses_a_given_encoder(config):
    encoder = AlbertEncoder(config)
    assert AlbertPretrainer(config, encoder=encoder).encoder is encoder
    with pytest.raises(ValueError, match="another config"):
        AlbertPretrainer(config.replace(vocab_size=51), encoder=encoder)


def test_without_pooler(config, inputs):
    model = AlbertPretrainer(config, sop_head=False, pooler=False)
    assert not any("pooler" in v.path for v in model.weights)
    whole = AlbertPretrainer(config)
    values = {v.path: v for v in whole.weights}
    for variable in model.weights:
        variable.assign(values[variable.path])
    outputs = model(inputs)
    assert set(outputs) == {"mlm_logits"}
    np.testing.assert_allclose(
        outputs["mlm_logits"], whole(inputs)["mlm_logits"], atol=1e-6
    )


def test_contradicting_arguments_are_errors(config):
    with pytest.raises(InputError, match="pooler=False must go with sop_head"):
        AlbertPretrainer(config, pooler=False)
    encoder = AlbertEncoder(config, pooler=False)
    with pytest.raises(
        InputError, match="pooler=True, but encoder was created"
    ):
        AlbertPretrainer(config, sop_head=False, encoder=encoder)
    model = AlbertPretrainer(
        config, sop_head=False, pooler=False, encoder=encoder
    )
    assert model.encoder is encoder
