import string

import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.text_classification import features as module
from albert_tf.finetuning.text_classification.examples import TextExample
from albert_tf.finetuning.text_classification.features import text_features
from albert_tf.text.wordpiece_tokenizer import AlbertWordPieceTokenizer

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *string.ascii_lowercase]
A = PIECES.index("a")


@pytest.fixture(scope="module")
def tokenizer():
    return AlbertWordPieceTokenizer("\n".join(PIECES).encode())


def example(text, pair=None, label=None):
    return TextExample(
        id="1", text=text, pair=pair, label=label, location="my.tsv:7"
    )


def popped(first, second, max_seq_length):
    """The original's loop (BERT's _truncate_seq_pair)."""
    first, second = list(first), list(second)
    if not second:
        return first[: max_seq_length - 2], second
    while len(first) + len(second) > max_seq_length - 3:
        (first if len(first) > len(second) else second).pop()
    return first, second


@pytest.mark.parametrize("max_seq_length", [5, 8, 9, 30])
def test_truncation_equals_the_originals(tokenizer, max_seq_length):
    letters = string.ascii_lowercase
    pairs = [
        (letters[:n], letters[-m:] if m else "")
        for n in range(12)
        for m in range(12)
    ]
    rows = text_features(
        [example(" ".join(a), " ".join(b)) for a, b in pairs],
        tokenizer,
        max_seq_length=max_seq_length,
        labelled=False,
    )
    for number, texts in enumerate(pairs):
        first, second = popped(
            *([PIECES.index(x) for x in text] for text in texts), max_seq_length
        )
        wanted = [2, *first, 3, *second, *[3] * bool(second)]
        start, end = rows.starts[number : number + 2]
        assert rows.ids[start:end].tolist() == wanted
        assert rows.types[start:end].sum() == len(wanted) - len(first) - 2


def test_labels(tokenizer):
    names = [example("a", label=x) for x in ("yes", "no", "yes")]
    rows = text_features(
        names, tokenizer, max_seq_length=8, labels=("no", "yes")
    )
    assert rows.columns["labels"].tolist() == [1, 0, 1]
    numbers = [example("a", label="2.5"), example("b", label=3)]
    rows = text_features(numbers, tokenizer, max_seq_length=8)
    assert rows.columns["labels"].tolist() == [2.5, 3.0]
    assert rows.columns["labels"].dtype == "float32"


@pytest.mark.parametrize(
    ("label", "labels", "message"),
    [
        ("maybe", ("no", "yes"), "'maybe' is not one of no, yes"),
        (None, ("no", "yes"), "no label"),
        (None, None, "no label"),
        ("much", None, "'much' is not a number"),
        ("nan", None, "'nan' is not a number"),
    ],
)
def test_bad_labels_are_reported_with_their_location(
    tokenizer, label, labels, message
):
    with pytest.raises(InputError, match=f"my.tsv:7: .*{message}"):
        text_features(
            [example("a", label=label)],
            tokenizer,
            max_seq_length=8,
            labels=labels,
        )


def test_features_do_not_depend_on_chunks(tokenizer, monkeypatch):
    letters = string.ascii_lowercase
    examples = [
        example(" ".join(letters[:n]), letters[n] if n % 3 else None)
        for n in range(20)
    ]
    whole = text_features(
        examples, tokenizer, max_seq_length=12, labelled=False
    )
    monkeypatch.setattr(module, "_CHUNK", 7)
    chunks = text_features(
        iter(examples), tokenizer, max_seq_length=12, labelled=False
    )
    assert chunks.ids.tolist() == whole.ids.tolist()
    assert chunks.starts.tolist() == whole.starts.tolist()
    assert len(whole) == 20
