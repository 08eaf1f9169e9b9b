import pytest

from albert_tf.data.examples.example import Answer
from albert_tf.data.features.span_context import SpanContext
from albert_tf.text.tokenizer import AlbertTokenizer


@pytest.fixture(scope="module")
def tokenizer(shared):
    return AlbertTokenizer.from_file(
        shared("data", "sentencepiece-30k-clean", "30k-clean.model")
    )


@pytest.mark.parametrize(
    ("context", "answer", "cut", "problem"),
    [
        ("in Athens, then", "Athens", "Athens", None),
        ("in Athens, then", " Athens", "Athens", None),
        # The blank after it is part of the next word's piece.
        ("in Athens then", "Athens ", "Athens", None),
        ("in  Athens \n then", "Athens \n then", "Athens \n then", None),
        ("a café, ｆｕｌｌ ﬁne", "café", "café", None),
        ("a cafe\u0301, full", "cafe\u0301", "cafe\u0301", None),
        ("a cafe\u0301, full", "cafe", "cafe\u0301", "ends inside a piece"),
        ("in the golden", "gold", "golden", "ends inside a piece"),
        ("the NFL", "L", "NFL", "begins inside a piece"),
        ("in 1978", "7", "1978", "begins and ends inside a piece"),
        ("abc", "", None, "no piece has it"),
    ],
)
def test_pieces_of_an_answer(tokenizer, context, answer, cut, problem):
    answer = Answer(text=answer, start=context.index(answer))
    pieces = SpanContext.from_text(context, tokenizer)
    found = pieces.pieces_of(answer)
    if cut is not None:
        assert pieces.cut(found) == cut
    else:
        assert found is None
    assert pieces.problem_of(answer) == problem


def test_context_without_pieces(tokenizer):
    pieces = SpanContext.from_text(" \n", tokenizer)
    assert len(pieces.ids) == len(pieces.starts) == len(pieces.limits) == 0
    assert pieces.pieces_of(Answer(text=" ", start=0)) is None
