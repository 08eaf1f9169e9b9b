import numpy as np
import pytest

from albert_tf.text.tokenizer import AlbertTokenizer

# Empty, blank, accents, other scripts, digits with commas, special tokens, and
# more than any row takes.
TEXTS = [
    "the good movie",
    "",
    " \u3000\t ",
    "a b\u00e0d f\u0131lm, 12,345 and 7,000. I've seen it",
    "\u65e5\u672c\u8a9e \ufb01lm STRA\u00dfE \u039f\u0394\u039f\u03a3",
    "[CLS] not [SEP] a <pad> movie [MASK]",
    "I have really seen the bad, bad movie 1,000 times. " * 6,
    "x",
]


@pytest.fixture(scope="session")
def tokenizer(tokenizer_model):
    return AlbertTokenizer.from_file(tokenizer_model)


@pytest.fixture(scope="session")
def noisy():
    """Returns `noisy(model)`: with weights that all show in the outputs."""

    def make(model):
        rng = np.random.default_rng(1)
        for weight in model.weights:
            weight.assign(weight + rng.normal(0, 0.3, weight.shape))
        return model

    return make


@pytest.fixture(scope="session")
def texts():
    return TEXTS


@pytest.fixture(scope="session")
def rows_as_batch():
    """Returns `batch(ids and types of rows)`: what a model takes."""

    def batch(rows, tokenizer):
        length = max(len(ids) for ids, _ in rows)
        inputs = {
            "input_word_ids": np.full(
                [len(rows), length], tokenizer.pad_id, "int32"
            ),
            "input_mask": np.zeros([len(rows), length], "int32"),
            "input_type_ids": np.zeros([len(rows), length], "int32"),
        }
        for row, (ids, types) in enumerate(rows):
            inputs["input_word_ids"][row, : len(ids)] = ids
            inputs["input_mask"][row, : len(ids)] = 1
            inputs["input_type_ids"][row, : len(ids)] = types
        return inputs

    return batch
