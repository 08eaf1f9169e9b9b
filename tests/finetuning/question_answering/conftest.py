import types

import pytest

from albert_tf.finetuning.examples import BadExamples
from albert_tf.finetuning.question_answering.examples import (
    Answer,
    QuestionAnsweringExample,
    read_squad,
)
from albert_tf.finetuning.question_answering.features import window_batches
from albert_tf.finetuning.question_answering.settings import WindowSettings
from albert_tf.text.wordpiece_tokenizer import AlbertWordPieceTokenizer


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
def windows_of():
    """Returns a function that returns the windows of each question.

    They have the attributes of `SpanWindow`, those of the row, and labels.
    """

    def windows_of(examples, tokenizer, labelled=False, **lengths):
        batches = window_batches(
            examples, tokenizer, WindowSettings(**lengths), labelled=labelled
        )
        questions = []
        for inputs, labels, windows in batches:
            rows = iter(range(len(inputs["input_mask"])))
            for question in windows:
                questions.append([])
                for window in question:
                    row = next(rows)
                    values = {
                        name: x[row, : window.length]
                        for name, x in inputs.items()
                    }
                    assert values["input_mask"].all()
                    assert inputs["input_mask"][row].sum() == window.length
                    if labelled:
                        start, end, is_impossible = labels[:, row].tolist()
                        values["start_position"] = start
                        values["end_position"] = end
                        values["is_impossible"] = bool(is_impossible)
                    questions[-1].append(
                        types.SimpleNamespace(**vars(window), **values)
                    )
        return questions

    return windows_of


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
        return AlbertWordPieceTokenizer(
            "".join(f"{p}\n" for p in pieces).encode()
        )

    return make


@pytest.fixture(scope="session")
def letters(wordpiece):
    """A tokenizer with a piece for each letter."""
    return wordpiece("abcdefghijklmnopqrstuvwxyz")


@pytest.fixture(scope="session")
def unusual_texts():
    """Characters that are reordered, composed, dropped, or space to Python."""
    return (
        "a\u0323\u0301 e\u0301\u0323o a\u0301\u0300\u0323\u0327b \u1ea5\u0323",
        "\ufeffthe movie\ufeff \ufb01lm \u00bd \u00ad so\u00adft\u00ad",
        " \x1c\x1d\x85 the\u3000\u2028movie \x00 not\x00 \u200b",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467 \u5317\u4eac\u5927\u5b66 "
        "\ud55c\uad6d\u1112\u1161\u11ab",
    )
