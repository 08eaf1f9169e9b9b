"""Files of texts, pairs, triplets and pairs with scores."""

import gzip

import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.embedding.examples import read_embedding_examples
from albert_tf.finetuning.examples import BadExamples

TEXTS = ("A plane.", "An air plane.", "A dog.")


def read(path, text, policy="stop", labelled=True):
    write = gzip.open if path.suffix == ".gz" else open
    with write(path, "wt", encoding="utf-8") as file:
        file.write(text)
    bad = BadExamples(policy)
    examples = read_embedding_examples(path, bad=bad, labelled=labelled)
    return [(x.id, x.texts, x.label) for x in examples], bad


def test_each_line_of_a_text_file_is_an_example(tmp_path):
    text = "\ufeffA plane.\r\n\n  \nwith a\ttab\n"
    path = tmp_path / "lines.txt.gz"
    found, _ = read(path, text)
    assert found == [("0", ("A plane.",), None), ("3", ("with a\ttab",), None)]


@pytest.mark.parametrize(
    ("name", "text", "texts", "label"),
    [
        ("a.tsv", "anchor\tpositive\nA plane.\tAn air plane.\n", 2, None),
        (
            "a.csv",
            "positive,negative,anchor\nAn air plane.,A dog.,A plane.\n",
            3,
            None,
        ),
        ("a.tsv", "sentence1\tsentence2\nA plane.\tAn air plane.\n", 2, None),
        (
            "a.tsv",
            "index\tsentence1\tsentence2\tscore\n7\tA plane.\tAn air plane."
            "\t3.8\n",
            2,
            3.8,
        ),
        (
            "a.jsonl",
            '{"sentence1": "A plane.", "sentence2": "An air plane.", '
            '"score": 0.5}\n',
            2,
            0.5,
        ),
    ],
)
def test_the_header_tells_the_kind_of_a_table(
    tmp_path, name, text, texts, label
):
    found, _ = read(tmp_path / name, text)
    assert found == [("0", TEXTS[:texts], label)]
    found, _ = read(tmp_path / name, text, labelled=False)
    assert found == [("0", TEXTS[:texts], None)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a\tb\n1\t2\n", "the header has none of the columns .* must have anc"),
        ("anchor\tnegative\n1\t2\n", "has anchor, negative of the columns"),
        ("anchor\tpositive\tscore\n1\t2\t3\n", "has anchor, positive, score"),
        ("sentence1\tscore\n1\t2\n", "has score, sentence1 of the columns"),
        ("sentence1\tsentence2\tlabel\n1\t2\t3\n", "the column label; call it"),
    ],
)
def test_other_tables_are_refused(tmp_path, text, problem):
    with pytest.raises(InputError, match=problem):
        read(tmp_path / "a.tsv", text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("anchor\tpositive\n1\t\n", r"a.tsv:2: text 2 is empty; fix"),
        (
            "anchor\tpositive\tnegative\n1\t2\t2\n",
            "a.tsv:2: the negative equals another text; give a different",
        ),
        ("sentence1\tsentence2\tscore\n1\t2\tx\n", "score 'x' is not a number"),
        ("sentence1\tsentence2\tscore\n1\t2\tnan\n", "'nan' is not a number"),
        ("sentence1\tsentence2\tscore\n1\t2\t1e39\n", "too large for float32"),
    ],
)
def test_bad_rows(tmp_path, text, problem):
    with pytest.raises(InputError, match=problem):
        read(tmp_path / "a.tsv", text)
    found, bad = read(tmp_path / "a.tsv", text, policy="skip")
    assert not found
    assert bad.counted == 1


def test_a_file_without_texts_is_refused(tmp_path):
    with pytest.raises(InputError, match="the file has no texts; give"):
        read(tmp_path / "empty.txt", "\n \n")


def test_labels_beside_scores_or_without_training_are_not_read(tmp_path):
    text = "sentence1\tsentence2\tlabel\tscore\nA plane.\tAn air plane.\tx\t1\n"
    found, _ = read(tmp_path / "a.tsv", text)
    assert found == [("0", TEXTS[:2], 1.0)]
    text = "sentence1\tsentence2\tlabel\nA plane.\tAn air plane.\tx\n"
    found, _ = read(tmp_path / "a.tsv", text, labelled=False)
    assert found == [("0", TEXTS[:2], None)]
