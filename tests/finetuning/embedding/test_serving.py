"""Outputs of the serving graph equal those of the model on features."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.finetuning.embedding.model import AlbertSentenceEncoder
from albert_tf.finetuning.registry import (
    known_task,
    make_task_type,
    with_settings,
)


def make_type(tokenizer, length):
    config = with_settings(known_task("embedding"), {"max_seq_length": length})
    return make_task_type(config, tokenizer)


@pytest.fixture(scope="module")
def model(serving_config, noisy):
    return noisy(AlbertSentenceEncoder(serving_config))


@pytest.mark.parametrize(
    ("length", "packed"), [(4, True), (40, True), (40, False)]
)
def test_texts(model, tokenizer, texts, length, packed):
    task_type = make_type(tokenizer, length)
    examples = task_type.sample_examples(texts)
    features = task_type.features(examples, labelled=False)
    vectors = model(features.pad(range(len(texts)))).numpy()
    expected = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    graph = task_type.serving_graph(model, packed=packed)
    found = graph.call({"text": tf.constant(texts)}, False)
    # Padding, and its removal, change the order of sums in float32.
    np.testing.assert_allclose(
        found["embedding"].numpy(), expected, rtol=0, atol=1e-5
    )
    none = graph.call({"text": tf.constant([], tf.string)}, False)
    assert none["embedding"].shape == (0, model.config.hidden_size)


def test_lengths_out_of_bounds(model, tokenizer):
    with pytest.raises(InputError, match="max_seq_length=3 must be at least 4"):
        make_type(tokenizer, 3)
    with pytest.raises(InputError, match="max_seq_length=41 must be at most"):
        make_type(tokenizer, 41).serving_graph(model)
