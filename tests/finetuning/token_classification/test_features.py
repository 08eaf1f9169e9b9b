import random

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.token_classification.examples import (
    TokenClassificationExample,
)
from albert_tf.finetuning.token_classification.task import (
    IGNORED,
    values_of_words,
    word_features,
)

LABELS = ("O", "B-PER", "I-PER")


def example(words, labels=None):
    return TokenClassificationExample(
        id="0",
        words=tuple(words),
        labels=None if labels is None else tuple(labels),
        location="x.txt:7",
    )


def test_the_first_piece_of_a_word_has_its_label(tokenizer):
    words = ["ba", "Murlopindra", "ro"]
    [[row]] = word_features(
        [example(words, ["O", "B-PER", "I-PER"])],
        tokenizer,
        max_seq_length=64,
        labels=LABELS,
    )
    pieces = [tokenizer.encode(word) for word in words]
    assert len(pieces[1]) > 1
    assert row.ids == [
        tokenizer.cls_id,
        *pieces[0],
        *pieces[1],
        *pieces[2],
        tokenizer.sep_id,
    ]
    wanted = [IGNORED]
    for label, ids in zip([0, 1, 2], pieces, strict=True):
        wanted += [label] + [IGNORED] * (len(ids) - 1)
    assert row.labels == [*wanted, IGNORED]
    assert IGNORED == -1
    assert [row.labels[i] for i in row.first_pieces] == [0, 1, 2]


def test_words_without_pieces_are_unknown(tokenizer):
    words = ["ba", "\u0301", "ro"]  # a lone accent
    assert not tokenizer.encode(words[1])
    [[row]] = word_features(
        [example(words, ["O", "B-PER", "O"])],
        tokenizer,
        max_seq_length=64,
        labels=LABELS,
    )
    place = row.first_pieces[1]
    assert row.ids[place] == tokenizer.unk_id
    assert row.labels[place] == 1


def test_long_sentences_are_split_between_words(tokenizer):
    rng = random.Random(5)
    parts = ["ba", "ro", "nti", "sel", "ka", "mur", "e", "lo", "pin", "dra"]
    words = [
        "".join(rng.choices(parts, k=rng.randint(1, 5))) for _ in range(90)
    ]
    labels = rng.choices(LABELS, k=len(words))
    [rows] = word_features(
        [example(words, labels)], tokenizer, max_seq_length=16, labels=LABELS
    )
    assert len(rows) > 5
    found, found_labels = [], []
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        assert len(row.ids) <= 16
        assert row.ids[0] == tokenizer.cls_id
        assert row.ids[-1] == tokenizer.sep_id
        if following:  # is full: its first word has no room in this one
            borders = [*following.first_pieces, len(following.ids) - 1]
            assert len(row.ids) + borders[1] - borders[0] > 16
        borders = [*row.first_pieces, len(row.ids) - 1]
        found += [
            row.ids[a:b] for a, b in zip(borders, borders[1:], strict=False)
        ]
        found_labels += [LABELS[row.labels[i]] for i in row.first_pieces]
    assert found == [tokenizer.encode(word) for word in words]
    assert found_labels == labels


def test_long_words_keep_their_first_pieces(tokenizer):
    words = ["ba", "murlopin" * 9, "ro"]
    [rows] = word_features([example(words)], tokenizer, max_seq_length=8)
    assert len(rows) == 3
    assert rows[1].ids[1:-1] == tokenizer.encode(words[1])[:6]
    assert [row.first_pieces for row in rows] == [[1], [1], [1]]


def test_predictions_are_gathered_by_word(tokenizer):
    words = ["ba", "murlopindra", "ro", "sel"] * 6
    [rows] = word_features([example(words)], tokenizer, max_seq_length=14)
    assert len(rows) > 2
    assert all(row.labels == [] for row in rows)
    number = iter(range(len(words)))
    predicted = []
    for row in rows:
        values = np.full(20, -7)  # padded
        for place in row.first_pieces:
            values[place] = next(number)
        predicted.append(values)
    assert values_of_words(rows, predicted).tolist() == list(range(len(words)))
    probabilities = [np.eye(3)[values % 3] for values in predicted]
    assert values_of_words(rows, probabilities).shape == (len(words), 3)


def test_sentences_without_words_have_no_sequences(tokenizer):
    rows = list(
        word_features(
            [example([]), example(["ba"])], tokenizer, max_seq_length=8
        )
    )
    assert [len(x) for x in rows] == [0, 1]
    assert values_of_words([], []).tolist() == []


def test_any_number_of_sentences_in_order(tokenizer):
    sentences = [example([f"ba{i}"] * (1 + i % 3)) for i in range(2500)]
    rows = list(word_features(iter(sentences), tokenizer, max_seq_length=64))
    assert len(rows) == len(sentences)
    assert [len(row.first_pieces) for [row] in rows[:3]] == [1, 2, 3]
    last = tokenizer.encode("ba2499")
    assert rows[-1][0].ids[1:-1] == last * (1 + 2499 % 3)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (None, "x.txt:7: no labels"),
        (["B-LOC"], "x.txt:7: label 'B-LOC' is not one of O, B-PER"),
    ],
)
def test_invalid_labels(tokenizer, labels, message):
    settings = {"max_seq_length": 8, "labels": LABELS}
    with pytest.raises(InputError, match=message):
        next(word_features([example(["ba"], labels)], tokenizer, **settings))


def test_words_of_real_text_are_the_pieces_of_the_text(
    google_tokenizer, shared
):
    path = shared("data", "wikiextractor-raw-sample", "wiki_00")
    lines = path.read_text("utf-8").splitlines()[:300]
    sentences = [line.split() for line in lines if line.strip()]
    rows = word_features(
        map(example, sentences), google_tokenizer, max_seq_length=100_000
    )
    for words, [row] in zip(sentences, rows, strict=True):
        assert len(row.first_pieces) == len(words)
        assert row.ids[1:-1] == google_tokenizer.encode(" ".join(words))
    assert len(sentences) > 100
