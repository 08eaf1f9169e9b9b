import csv
import io
import json

import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.examples import BadExamples
from albert_tf.finetuning.table_writer import (
    TableWriter,
    output_format,
    table_lines,
)
from albert_tf.finetuning.tables import read_rows

HOSTILE = ["a, b", 'say "x"', "two\nlines", "cr\rlf\r\n", "tab\t", " ", "", "ü"]


def test_lines_of_predictions():
    record = {
        "id": "7",
        "label": "id",
        "probabilities": {"id": 0.9, "label": 0.1, "a\tb\n": 3e-8},
        "tokens": ["left", "out"],
    }
    header, row = table_lines(record, header=True)
    assert header.split("\t") == [
        *("id", "label", "probabilities.id", "probabilities.label", "a b "),
    ]
    assert row.split("\t") == ["7", "id", "0.900000", "0.100000", "3e-08"]
    assert table_lines(record, header=False) == [row]


@pytest.mark.parametrize("reader", ["csv", "pandas", "ours"])
def test_csv_is_read_back(reader, tmp_path):
    path = tmp_path / "a.csv"
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        writer = TableWriter(file, "csv")
        for number, text in enumerate(HOSTILE):
            writer.write(None, [{"id": number, 'te"xt,': text}])
    if reader == "csv":
        with open(path, encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file)
    elif reader == "pandas":
        pandas = pytest.importorskip("pandas")
        table = pandas.read_csv(path, dtype=str, keep_default_na=False)
        header, rows = list(table.columns), table.to_numpy().tolist()
    else:
        found = read_rows(
            path, {"id": "id", "text": 'te"xt,'}, bad=BadExamples()
        )
        header = ["id", 'te"xt,']
        rows = [list(row.cells.values()) for row in found]
    assert header == ["id", 'te"xt,']
    texts = HOSTILE
    if reader == "ours":  # It reads all line ends as line feeds.
        texts = [x.replace("\r\n", "\n") for x in texts]
    assert rows == [[str(i), text] for i, text in enumerate(texts)]


def test_json_lines_and_tables_of_several_rows():
    file = io.StringIO()
    TableWriter(file, "jsonl").write(["ü", 1], [{"a": 1}])
    assert json.loads(file.getvalue()) == ["ü", 1]
    file = io.StringIO()
    writer = TableWriter(file, "tsv")
    for rows in ([], [{"a": 1}, {"a": 2}], [{"a": 3}]):
        writer.write(None, rows)
    assert file.getvalue() == "a\n1\n2\n3\n"


def test_the_name_says_the_format():
    expected = {
        "x.csv": "csv",
        "X.CSV": "csv",
        "a/x.tsv": "tsv",
        "x.jsonl": "jsonl",
        "x.ndjson": "jsonl",
        "x.txt": "jsonl",
        "/dev/stdout": "jsonl",
        None: "jsonl",
    }
    for name, form in expected.items():
        assert output_format(name, None, "jsonl") == form
    assert output_format("x.json", "csv", "tsv") == "csv"
    for name in ("x.json", "x.csv.gz", "x.xlsx"):
        with pytest.raises(InputError, match="no format has the extension"):
            output_format(name, None, "tsv")
