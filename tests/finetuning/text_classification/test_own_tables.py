import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.examples import BadExamples
from albert_tf.finetuning.text_classification import examples
from albert_tf.finetuning.text_classification.examples import (
    read_texts,
    text_task_from_columns,
)

BODY = {"text": "body", "label": "kind"}


def write(path, text):
    path.write_text(text, "utf-8")
    return path


def test_classes_are_found_and_sorted(tmp_path):
    one = write(tmp_path / "a.csv", "body,kind\nx,spam\ny,ham\n")
    two = write(tmp_path / "b.csv", "kind,body\nspam,z\nnews,z\n")
    task = text_task_from_columns([one, two], BODY)
    assert task.labels == ("ham", "news", "spam")
    assert task.metrics == ("accuracy",)
    examples = read_texts(task, two, bad=BadExamples(), labelled=True)
    assert [(each.text, each.label) for each in examples] == [
        ("z", "spam"),
        ("z", "news"),
    ]


def test_whole_numbers_are_sorted_as_numbers(tmp_path):
    path = write(tmp_path / "a.tsv", "x\t10\ny\t9\nz\t-1\n")
    task = text_task_from_columns(path, {"text": 0, "label": 1})
    assert task.labels == ("-1", "9", "10")
    assert not task.header


def test_given_classes_need_no_file(tmp_path):
    task = text_task_from_columns(
        tmp_path / "none.jsonl",
        {"text": "a", "pair": "b", "label": "c", "id": "d"},
        classes=["yes", "no"],
    )
    assert task.labels == ("yes", "no")
    assert task.metrics == ("accuracy",)
    path = write(
        tmp_path / "a.jsonl", '{"a": "x", "b": "y", "c": "no", "d": 7}\n'
    )
    [example] = read_texts(task, path, bad=BadExamples(), labelled=True)
    assert (example.text, example.pair) == ("x", "y")
    assert (example.label, example.id) == ("no", "7")


def test_numbers(tmp_path):
    path = write(tmp_path / "a.csv", "x,0.5\n")
    task = text_task_from_columns(path, {"text": 0, "label": 1}, number=True)
    assert task.labels is None
    assert task.metrics == ("pearson", "spearman")
    [example] = read_texts(task, path, bad=BadExamples(), labelled=True)
    assert example.label == 0.5


@pytest.mark.parametrize(
    ("columns", "header"),
    [
        ({"text": 0, "label": "kind"}, None),
        ({"text": "body", "label": 1}, None),
        ({"text": 0, "label": 1, "id": "body"}, None),
        ({"text": 0, "label": 1}, None),
        ({"text": 0, "label": 1}, True),
    ],
)
def test_header_with_columns_given_by_index(tmp_path, columns, header):
    path = write(tmp_path / "a.csv", "body,kind\nx,1\ny,0\n")
    task = text_task_from_columns(path, columns, header=header)
    skipped = header or any(isinstance(x, str) for x in columns.values())
    assert task.labels == (("0", "1") if skipped else ("0", "1", "kind"))
    examples = read_texts(task, path, bad=BadExamples(), labelled=True)
    texts = [example.text for example in examples]
    assert texts == (["x", "y"] if skipped else ["body", "x", "y"])


def test_rows_without_a_label(tmp_path):
    path = write(tmp_path / "a.csv", "body,kind\nx,a\ny,\nz,b\n")
    with pytest.raises(InputError, match="a.csv:3: the label is empty"):
        text_task_from_columns(path, BODY)
    task = text_task_from_columns(path, BODY, on_bad_example="skip")
    assert task.labels == ("a", "b")
    bad = BadExamples("skip")
    assert len(list(read_texts(task, path, bad=bad, labelled=True))) == 2
    assert bad.counted == 1


def test_labels_of_skipped_rows_are_no_classes(tmp_path):
    path = write(
        tmp_path / "a.csv",
        "no,body,kind\n1,x,a\n2, ,none\n2,y,b\n2,z,other\n",
    )
    columns = BODY | {"id": "no"}
    task = text_task_from_columns(path, columns, on_bad_example="skip")
    assert task.labels == ("a", "b")
    with pytest.raises(InputError, match="a.csv:3: the text is empty"):
        text_task_from_columns(path, columns)


@pytest.mark.parametrize(
    ("rows", "header", "warned"),
    [
        ("body,kind\nx,a\ny,a\nz,b\n", None, True),
        ("body,kind\nx,a\ny,a\nz,b\n", True, False),
        ("x,a\ny,b\nz,a\n", None, False),
        ("x,a\ny,b\n", None, False),
    ],
)
def test_a_header_that_is_read_as_a_row(tmp_path, rows, header, warned, caplog):
    paths = [write(tmp_path / name, rows) for name in ("1.csv", "2.csv")]
    columns = {"text": 0, "label": 1}
    text_task_from_columns(paths[:1], columns, header=header)
    text_task_from_columns(paths, columns, header=header)
    assert len(caplog.messages) == 3 * warned
    for message in caplog.messages:
        assert "csv:1: no other row has the label 'kind'; if this" in message


def test_tables_without_a_valid_task(tmp_path, monkeypatch):
    path = write(tmp_path / "a.csv", "body,kind\nx,1\ny,1\n")

    def make(**settings):
        return text_task_from_columns(path, BODY, **settings)

    with pytest.raises(InputError, match=r"'kind' has 1 label \(1\); a task"):
        make()
    with pytest.raises(InputError, match="'sort' is not in the header"):
        text_task_from_columns(path, {**BODY, "label": "sort"})
    with pytest.raises(InputError, match="classes='a,a' must be two or more"):
        make(classes=["a", "a"])
    with pytest.raises(InputError, match="classes='a,b' must be left out"):
        make(classes=["a", "b"], number=True)
    monkeypatch.setattr(examples, "MAX_CLASSES", 2)
    write(path, "body,kind\nx,1\ny,2\nz,3\n")
    with pytest.raises(InputError, match="a.csv:4: .* has more than 2 labels"):
        make()


@pytest.mark.long
def test_imdb(shared):
    columns = {"text": "text", "label": "label", "id": "id"}
    paths = [
        shared("data", "imdb", f"{split}.tsv.gz") for split in ("train", "test")
    ]
    task = text_task_from_columns(paths[:1], columns)
    assert task.labels == ("0", "1")
    for path in paths:
        examples = read_texts(task, path, bad=BadExamples(), labelled=True)
        labels = [each.label for each in examples]
        assert len(labels) == 25_000
        assert labels.count("1") == 12_500
