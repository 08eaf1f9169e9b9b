import dataclasses

import numpy as np
import pytest

from albert_tf.models.encoder import AlbertEncoder

LENGTH = 24


@pytest.fixture(scope="session")
def encoder(config):
    # Matrices of less than 1024 values are not quantized.
    model = AlbertEncoder(
        dataclasses.replace(
            config, embedding_size=32, hidden_size=64, intermediate_size=128
        )
    )
    rng = np.random.default_rng(1)
    for weight in model.weights:
        # Far from zeros and ones, so that each weight shows in the outputs; and
        # the same in every run, since the errors of quantization depend on it.
        center = 1.0 if weight.path.endswith("gamma") else 0.0
        weight.assign(center + rng.normal(0, 0.1, weight.shape))
    return model


@pytest.fixture(scope="session")
def length():
    return LENGTH


@pytest.fixture(scope="session")
def make_rows(config):
    """Returns `rows(count, length, seed)`: rows of ids, some with padding."""

    def make(count, length=LENGTH, seed=0):
        rng = np.random.default_rng(seed)
        rows = []
        for number in range(count):
            mask = np.ones([1, length], "int32")
            if number % 2:
                mask[:, rng.integers(2, length) :] = 0
            ids = rng.integers(5, config.vocab_size, mask.shape, "int32")
            types = (np.arange(length) > 4).astype("int32")
            rows.append(
                {
                    "input_word_ids": ids * mask,
                    "input_mask": mask,
                    "input_type_ids": types * mask,
                }
            )
        return rows

    return make
