import pytest

from albert_tf.data.examples.bad_examples import BadExamples
from albert_tf.data.examples.example import Answer, SpanExample
from albert_tf.data.examples.squad import read_squad
from albert_tf.data.features.span_answers import count_answers
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.wordpiece_tokenizer import WordPieceTokenizer


def read(path):
    bad = BadExamples("skip")
    return list(read_squad(path, bad=bad, need_positions=False))


def example(context, answer, start):
    return SpanExample(
        id="q",
        question="Who?",
        context=context,
        answers=(Answer(text=answer, start=start),),
        place="x.json, q",
    )


def wordpiece(characters):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *characters]
    pieces += [f"##{c}" for c in characters if c.isalnum()]
    return WordPieceTokenizer("".join(f"{p}\n" for p in pieces).encode())


@pytest.fixture(scope="module")
def tokenizer(shared):
    return AlbertTokenizer.from_file(
        shared("data", "sentencepiece-30k-clean", "30k-clean.model")
    )


def test_answers_not_where_they_are_said_to_be(tokenizer):
    counts = count_answers(
        [
            example("in Athens", "Athens", 3),
            example("in Athens", "Athens", 2),
            example("in Athens", "Athens", -1),
            example("in Athens", "Sparta", 3),
        ],
        tokenizer,
    )
    assert counts == {None: 1, "not at its offset": 3}


def test_answers_of_what_the_tokenizer_drops():
    context = "a \u200b b c\u200b"  # WordPiece drops U+200B.
    assert count_answers(
        [
            example(context, "\u200b", 2),
            example(context, "\u200b b", 2),
            example(context, "c\u200b", 6),
            example(context, "c", 6),
        ],
        wordpiece("abc"),
    ) == {
        "no piece has it": 1,
        "begins or ends with what no piece has": 1,
        None: 1,
        "ends inside a piece": 1,
    }


def test_answers_of_squad(shared, tokenizer):
    """Of some of dev; of train, 99.7 % are given back."""
    examples = read(shared("data", "squad", "dev-v1.1.json.gz"))[::40]
    counts = count_answers(examples, tokenizer)
    given_back = counts.pop(None)
    assert given_back / (given_back + counts.total()) > 0.98
    # The file says that "gold" is in "golden" where that comes first.
    assert set(counts) <= {
        "begins inside a piece",
        "ends inside a piece",
        "begins and ends inside a piece",
    }


def test_answers_of_cmrc(shared):
    """Chinese, by pieces of one ideograph and of Latin script."""
    examples = read(shared("data", "cmrc2018", "cmrc2018_trial.json"))[::10]
    characters = {c for each in examples for c in each.context.lower()}
    tokenizer = wordpiece(sorted(c for c in characters if c.strip()))
    counts = count_answers(examples, tokenizer)
    counts.pop("not at its offset", None)
    given_back = counts.pop(None)
    assert given_back / (given_back + counts.total()) > 0.99
