"""A small model that reads text."""

import keras
import pytest

from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrainer import AlbertPretrainer


@pytest.fixture(scope="module")
def make_encoder(config, tokenizer):
    """Returns `make(**fields of the config)`: an encoder with a tokenizer."""
    config = config.replace(
        vocab_size=tokenizer.vocab_size,
        num_hidden_layers=3,
        num_attention_heads=2,
        max_position_embeddings=40,
    )

    def make(cls=AlbertEncoder, **fields):
        keras.utils.set_random_seed(1)
        encoder = cls(config.replace(**fields))
        encoder.vocabulary = type(encoder.vocabulary)(tokenizer)
        return encoder

    return make


@pytest.fixture(scope="module")
def model_folder(make_encoder, tmp_path_factory):
    """A saved pretrainer with its tokenizer."""
    folder = tmp_path_factory.mktemp("models") / "small"
    make_encoder(AlbertPretrainer).save_pretrained(folder)
    return folder
