"""Architectures of tests."""

from albert_tf.config import AlbertConfig

SMALL = AlbertConfig(
    vocab_size=50,
    embedding_size=8,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=24,
    max_position_embeddings=20,
    # Far from zero, so that every part matters in a comparison.
    initializer_range=0.3,
)
