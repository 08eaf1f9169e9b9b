import numpy as np
import pytest

MASK_ID = 4


@pytest.fixture(scope="session")
def config(config):
    return config.replace(vocab_size=60, hidden_size=24, intermediate_size=40)


@pytest.fixture(scope="session")
def text():
    """Ids int32 `[6, 12]`; the last rows end with padding."""
    ids = np.random.default_rng(0).integers(5, 60, (6, 12), "int32")
    ids[:, 0] = 2
    ids[4:, 9:] = 0
    return ids


@pytest.fixture(scope="session")
def batch(text):
    """`text` with masks of all kinds: [MASK], a random token, unchanged.

    Rows have three predictions or fewer.
    """
    positions = np.array([[1, 5, 8]] * 5 + [[2, 7, 0]], "int32")
    weights = np.ones((6, 3), "float32")
    weights[5, 2] = 0
    rows = np.arange(6)[:, None]
    labels = np.where(weights > 0, text[rows, positions], 0).astype("int32")
    ids = text.copy()
    ids[rows[:, 0], positions[:, 0]] = MASK_ID
    ids[:3, 5] = 7
    return {
        "input_word_ids": ids,
        "input_mask": (text > 0).astype("int32"),
        "input_type_ids": np.zeros_like(text),
        "masked_lm_positions": positions,
        "masked_lm_ids": labels,
        "masked_lm_weights": weights,
        "sentence_order_labels": np.array([0, 1, 1, 0, 0, 1], "int32"),
    }
