import numpy as np
import pytest

from albert_tf.finetuning.examples import BadExamples
from albert_tf.finetuning.question_answering.examples import (
    Answer,
    QuestionAnsweringExample,
    read_squad,
)
from albert_tf.text.wordpiece_tokenizer import WordPieceTokenizer


@pytest.fixture(scope="session")
def make_example():
    """Returns `make(context, answer=None, start=None, **fields)`."""

    def make(context, answer=None, start=None, **fields):
        if answer is not None:
            start = context.index(answer) if start is None else start
            fields["answers"] = (Answer(text=answer, start=start),)
        fields = {"id": "q", "question": "Who?", **fields}
        return QuestionAnsweringExample(
            context=context, location="x.json, q", **fields
        )

    return make


@pytest.fixture(scope="session")
def read(shared):
    """Returns `read(*parts)`: questions of a shared file, to score with."""

    def examples(*parts):
        return list(
            read_squad(
                shared(*parts), bad=BadExamples("skip"), need_positions=False
            )
        )

    return examples


@pytest.fixture(scope="session")
def wordpiece():
    """Returns `make(characters)`: a tokenizer with a piece for each."""

    def make(characters):
        pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *characters]
        pieces += [f"##{c}" for c in characters if c.isalnum()]
        return WordPieceTokenizer("".join(f"{p}\n" for p in pieces).encode())

    return make


@pytest.fixture(scope="session")
def letters(wordpiece):
    """A tokenizer with a piece for each letter."""
    return wordpiece("abcdefghijklmnopqrstuvwxyz")


@pytest.fixture
def batch():
    """The encoder's inputs `[4, 12]`, of different lengths."""
    rng = np.random.default_rng(0)
    mask = (np.arange(12) < np.array([7, 8, 12, 9])[:, None]).astype("int32")
    return {
        "input_word_ids": rng.integers(5, 50, mask.shape, "int32") * mask,
        "input_mask": mask,
        "input_type_ids": (np.arange(12) >= 3).astype("int32") * mask,
    }
