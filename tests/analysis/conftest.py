"""A small model that reads text."""

import keras
import pytest

from albert_tf.models.encoder import AlbertEncoder


@pytest.fixture(scope="module")
def make_encoder(config, tokenizer):
    """Returns `make(**fields of the config)`: an encoder with a tokenizer."""
    config = config.replace(
        vocab_size=tokenizer.vocab_size,
        num_hidden_layers=3,
        num_attention_heads=2,
        max_position_embeddings=40,
    )

    def make(**fields):
        keras.utils.set_random_seed(1)
        encoder = AlbertEncoder(config.replace(**fields))
        encoder.vocabulary = type(encoder.vocabulary)(tokenizer)
        return encoder

    return make
