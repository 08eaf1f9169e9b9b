import random
from typing import NamedTuple

import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.token_classification.examples import (
    TokenClassificationExample,
)
from albert_tf.finetuning.token_classification.features import (
    IGNORED,
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


class Row(NamedTuple):
    ids: list[int]
    labels: list[int]
    first_pieces: list[int]


def rows_of(examples, tokenizer, **settings):
    """Returns the sequences of each sentence."""
    features = word_features(iter(examples), tokenizer, **settings)
    labels = features.token_columns.get("labels", features.ids[:0])
    starts, sentences = features.starts, []
    for sequence_of, position_of in features.metadata:
        sentences.append(
            [
                Row(
                    features.ids[starts[i] : starts[i + 1]].tolist(),
                    labels[starts[i] : starts[i + 1]].tolist(),
                    position_of[sequence_of == i].tolist(),
                )
                for i in dict.fromkeys(sequence_of)
            ]
        )
    return sentences


def test_the_first_piece_of_a_word_has_its_label(tokenizer):
    words = ["ba", "Murlopindra", "ro"]
    [[row]] = rows_of(
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
    [[row]] = rows_of(
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
    [rows] = rows_of(
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
    [rows] = rows_of([example(words)], tokenizer, max_seq_length=8)
    assert len(rows) == 3
    assert rows[1].ids[1:-1] == tokenizer.encode(words[1])[:6]
    assert [row.first_pieces for row in rows] == [[1], [1], [1]]


def test_sentences_without_words_have_no_sequences(tokenizer):
    rows = rows_of([example([]), example(["ba"])], tokenizer, max_seq_length=8)
    assert [len(x) for x in rows] == [0, 1]


def test_any_number_of_sentences_in_order(tokenizer):
    sentences = [example([f"ba{i}"] * (1 + i % 3)) for i in range(2500)]
    rows = rows_of(sentences, tokenizer, max_seq_length=64)
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
        rows_of([example(["ba"], labels)], tokenizer, **settings)


def test_words_of_real_text_are_the_pieces_of_the_text(
    google_tokenizer, shared
):
    path = shared("data", "wikiextractor-raw-sample", "wiki_00")
    lines = path.read_text("utf-8").splitlines()[:300]
    sentences = [line.split() for line in lines if line.strip()]
    rows = rows_of(
        list(map(example, sentences)), google_tokenizer, max_seq_length=100_000
    )
    for words, [row] in zip(sentences, rows, strict=True):
        assert len(row.first_pieces) == len(words)
        assert row.ids[1:-1] == google_tokenizer.encode(" ".join(words))
    assert len(sentences) > 100
