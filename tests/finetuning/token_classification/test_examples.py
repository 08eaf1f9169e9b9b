import dataclasses

import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.examples import BadExamples
from albert_tf.finetuning.registry import make_task_type
from albert_tf.finetuning.token_classification.examples import (
    NER,
    TokenClassificationExample,
    read_conll,
)

TEXT = (
    "-DOCSTART- -X- -X- O\n\n"
    "EU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\n\n"
    "Peter NNP B-NP B-PER\nBlackburn NNP I-NP I-PER\n"
)


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(path, policy="stop", **settings):
    bad = BadExamples(policy)
    return list(read_conll(path, bad=bad, **settings)), bad


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        TEXT.replace(" ", "\t"),
        TEXT.replace(" ", "   "),
        TEXT.replace(" ", "\t").replace("PER\n", "PER \n"),
        "\ufeff" + TEXT.replace("\n", "\r\n"),
    ],
)
def test_sentences(tmp_path, text):
    path = write(tmp_path / "train.txt", text)
    assert read(path)[0] == [
        TokenClassificationExample(
            id="0",
            words=("EU", "rejects"),
            labels=("B-ORG", "O"),
            location=f"{path}:3",
        ),
        TokenClassificationExample(
            id="1",
            words=("Peter", "Blackburn"),
            labels=("B-PER", "I-PER"),
            location=f"{path}:7",
        ),
    ]


def test_labels_may_be_missing(tmp_path):
    path = write(tmp_path / "test.txt", "EU\nrejects\n\nPeter")
    examples, _ = read(path, labelled=False)
    assert [each.words for each in examples] == [("EU", "rejects"), ("Peter",)]
    assert examples[0].labels is None


def test_words_may_contain_other_white_space(tmp_path):
    path = write(tmp_path / "train.txt", "10\u00a0000 O\nNew York\tB-LOC\n")
    [example], _ = read(path)
    assert example.words == ("10\u00a0000", "New York")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "a O\n\nb O\nc\nd O\n\ne O\n",
            "train.txt:4: 1 columns, but expected 2",
        ),
        (
            "a O\n\nb O\nc X O\n\ne O\n",
            "train.txt:4: 3 columns, but expected 2",
        ),
        ("a\tO\n\nb\tO\nc\t\n\ne\tO\n", "train.txt:4: the label is empty"),
        ("a\tO\n\nb\tO\n\tO\n\ne\tO\n", "train.txt:4: the word is empty"),
        (b"a O\n\nb O\n\xff O\n\ne O\n", "train.txt:4: byte 1 of the line"),
    ],
)
def test_bad_lines_invalidate_their_sentence(tmp_path, text, problem):
    path = write(tmp_path / "train.txt", text)
    with pytest.raises(InputError, match=problem):
        read(path)
    examples, bad = read(path, "skip")
    assert [(each.id, each.words) for each in examples] == [
        ("0", ("a",)),
        ("2", ("e",)),
    ]
    assert bad.counted == 1


def test_sentences_with_unknown_labels_are_bad(tmp_path):
    path = tmp_path / "test.txt"
    path.write_text("a O\n\nb B-LAW\n\nc O\n")
    task = make_task_type(dataclasses.replace(NER, labels=("B-PER", "O")))
    bad = BadExamples("skip")
    found = task.read_examples(path, bad=bad, labelled=True)
    assert [x.words for x in found] == [("a",), ("c",)]
    assert bad.counted == 1
    with pytest.raises(InputError, match="test.txt:3: label 'B-LAW' is not on"):
        list(task.read_examples(path, bad=BadExamples(), labelled=True))


def test_unusable_files(tmp_path):
    path = write(tmp_path / "train.txt", "\n-DOCSTART- O\n\n")
    with pytest.raises(InputError, match="train.txt: no sentences"):
        read(path)
    write(path, "a\nb\n")
    with pytest.raises(InputError, match="train.txt:1: only one column"):
        read(path)
