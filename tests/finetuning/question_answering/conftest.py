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
