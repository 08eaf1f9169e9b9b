import numpy as np
import pytest

from albert_tf.training.distribution import make_strategy


@pytest.fixture(scope="session")
def toy():
    """The module toy.py."""
    from training import toy

    return toy


@pytest.fixture
def one_device():
    return make_strategy("one_device")


@pytest.fixture
def two_replicas():
    return make_strategy("mirrored", devices=["CPU:0", "CPU:1"])


@pytest.fixture(scope="session")
def small_config(config):
    """An architecture for the inputs of `pretraining_batch`, with dropout."""
    return config.replace(
        num_hidden_layers=1,
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
        initializer_range=0.1,
    )


@pytest.fixture(scope="session")
def pretraining_batch(small_config):
    """Eight random examples of pretraining, of 12 tokens, as arrays."""
    rng = np.random.default_rng(0)

    def ids(*shape, high=small_config.vocab_size):
        return rng.integers(5, high, shape).astype("int32")

    return {
        "input_word_ids": ids(8, 12),
        "input_mask": np.ones([8, 12], "int32"),
        "input_type_ids": np.zeros([8, 12], "int32"),
        "masked_lm_positions": ids(8, 2, high=12),
        "masked_lm_ids": ids(8, 2),
        "masked_lm_weights": np.ones([8, 2], "float32"),
        "sentence_order_labels": ids(8) % 2,
    }
