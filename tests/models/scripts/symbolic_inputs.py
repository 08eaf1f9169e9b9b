"""A functional model of ids of any length; exports that Keras cannot do."""

import keras
import numpy as np
import pytest

from albert_tf import AlbertClassifier, AlbertConfig, AlbertEncoder
from albert_tf.errors import InputError

config = AlbertConfig(
    vocab_size=30,
    embedding_size=4,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=16,  # fewer than Keras tries on PyTorch
)
encoder = AlbertEncoder(config)
ids = keras.Input((None,), dtype="int32")
model = keras.Model(ids, encoder(ids)["pooled_output"])
for length in (4, 16):
    values = np.arange(2, 2 + length, dtype="int32")[None]
    np.testing.assert_allclose(
        model.predict(values, verbose=0),
        keras.ops.convert_to_numpy(encoder(values)["pooled_output"]),
        atol=1e-6,
    )
with pytest.raises(ValueError, match="has length 17"):
    encoder(np.ones((1, 17), "int32"))
with pytest.raises(InputError, match="KERAS_BACKEND=tensorflow"):
    AlbertClassifier(config, 2).export("export")
