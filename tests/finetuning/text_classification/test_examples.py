import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.examples import BadExamples
from albert_tf.finetuning.task_config import split_path
from albert_tf.finetuning.text_classification.examples import (
    TextExample,
    TextTask,
    read_texts,
    text_task_config,
)

PAIRS = TextTask(
    name="pairs",
    labels=("no", "yes"),
    metrics=("accuracy",),
    text="first",
    pair="second",
    label="same",
    id="id",
    folder="Pairs",
    files={"train": "train.tsv", "dev": "dev.tsv"},
    other_files={"train": "all.tsv"},
)
NUMBERS = TextTask(
    name="numbers", labels=None, metrics=("pearson",), text=0, label=1,
    header=False,
)  # fmt: skip


def write(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def read(task, path, bad=None, labelled=True):
    return list(
        read_texts(task, path, bad=bad or BadExamples(), labelled=labelled)
    )


def test_examples_of_pairs(tmp_path):
    path = write(
        tmp_path / "a.tsv",
        "id\tsame\tfirst\tsecond\nx\tyes\t It rains. \tRain.\ny\t no \tA\tB\n",
    )
    assert read(PAIRS, path) == [
        TextExample(
            id="x",
            text=" It rains. ",
            pair="Rain.",
            label="yes",
            location=f"{path}:2",
        ),
        TextExample(
            id="y", text="A", pair="B", label="no", location=f"{path}:3"
        ),
    ]
    assert [each.label for each in read(PAIRS, path, labelled=False)] == [
        None,
        None,
    ]


def test_unlabelled_files_need_no_labels(tmp_path):
    path = write(tmp_path / "a.tsv", "id\tfirst\tsecond\nx\tA\tB\nx\tC\tD\n")
    # Ids are not kept: predictions are streamed.
    assert [each.text for each in read(PAIRS, path, labelled=False)] == [
        "A",
        "C",
    ]
    with pytest.raises(InputError, match="a.tsv:1: column 'same' is not in"):
        read(PAIRS, path)


def test_numbers(tmp_path):
    path = write(tmp_path / "a.tsv", "one\t1\ntwo\t-2.5e0\n")
    examples = read(NUMBERS, path)
    assert [(each.id, each.label) for each in examples] == [
        ("0", 1.0),
        ("1", -2.5),
    ]
    assert examples[0].pair is None


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("z\tyes\t \tB", "a.tsv:3: the text is empty"),
        ("z\tyes\tA\t", "a.tsv:3: the second text is empty"),
        ("z\tYES\tA\tB", "a.tsv:3: label 'YES' is not one of no, yes"),
        ("z\t\tA\tB", "a.tsv:3: label '' is not one of"),
        ("x\tyes\tA\tB", "a.tsv:3: id 'x' is also used by .*a.tsv:2"),
        ("z\tyes\tA", "a.tsv:3: 3 columns, not 4"),
    ],
)
def test_bad_rows(tmp_path, row, problem):
    path = write(
        tmp_path / "a.tsv",
        f"id\tsame\tfirst\tsecond\nx\tyes\tA\tB\n{row}\ny\tno\tC\tD\n",
    )
    with pytest.raises(InputError, match=problem) as caught:
        read(PAIRS, path)
    assert "\n" not in str(caught.value)
    bad = BadExamples("skip")
    assert [each.id for each in read(PAIRS, path, bad)] == ["x", "y"]
    assert bad.counted == 1


def test_lone_surrogates(tmp_path):
    path = write(
        tmp_path / "a.jsonl",
        '{"id": 1, "first": "\\ud83d\\ude00", "second": "B"}\n'
        '{"id": 2, "first": "\\ud83d", "second": "B"}\n',
    )
    bad = BadExamples("skip")
    [example] = read(PAIRS, path, bad, labelled=False)
    assert example.text == "\U0001f600"
    assert "a.jsonl:2: the text has a lone surrogate" in bad.lines[0]


@pytest.mark.parametrize("cell", ["", "nan", "inf", "1,5", "high", "1e39"])
def test_labels_that_are_not_numbers(tmp_path, cell):
    path = write(tmp_path / "a.tsv", f"one\t1\ntwo\t{cell}\n")
    problem = "too large for float32" if cell == "1e39" else "is not a number"
    with pytest.raises(InputError, match=f"a.tsv:2: label .* {problem}"):
        read(NUMBERS, path)


def test_reading_is_lazy(tmp_path):
    path = write(tmp_path / "a.tsv", "one\t1\ntwo\tx\n")
    reader = read_texts(NUMBERS, path, bad=BadExamples(), labelled=True)
    assert next(reader).text == "one"


def test_files_of_splits(tmp_path):
    task = text_task_config(PAIRS)
    own = write(tmp_path / "Pairs" / "dev.tsv", "x")
    assert split_path(task, tmp_path, "dev") == own
    assert split_path(task, tmp_path / "Pairs", "dev") == own
    other = write(tmp_path / "Pairs" / "all.tsv.gz", "x")
    assert split_path(task, tmp_path, "train") == other
    first = write(tmp_path / "Pairs" / "train.tsv.gz", "x")
    assert split_path(task, tmp_path, "train") == first
    with pytest.raises(InputError, match="split='test' of pairs must be one"):
        split_path(task, tmp_path, "test")
    with pytest.raises(InputError, match="pairs has no train.tsv or all.tsv"):
        split_path(task, tmp_path / "none", "train")
