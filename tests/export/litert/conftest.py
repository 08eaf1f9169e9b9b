import numpy as np
import pytest

LENGTH = 24


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
