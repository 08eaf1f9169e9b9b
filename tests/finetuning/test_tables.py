import csv
import gzip
import io
import json
import random

import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning import tables as module
from albert_tf.finetuning.examples import BadExamples
from albert_tf.finetuning.table_writing import (
    TableWriter,
    output_format,
)
from albert_tf.finetuning.tables import quoted_rows, read_rows


def write(path, text):
    path.write_text(text, "utf-8")
    return path


def cells(path, columns, bad=None, **settings):
    columns = {str(column): column for column in columns}
    rows = read_rows(path, columns, bad=bad or BadExamples(), **settings)
    return [tuple(row.cells.values()) for row in rows]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tsv", "id\ttext\tlabel\n1\tone\tx\n2\ttwo\ty\n"),
        (
            "a.txt",
            "\ufeffid\ttext\tlabel\r\n1\tone\tx\r\n\r\n2\ttwo\ty\r\n\r\n",
        ),
        ("a.csv", 'id,text,label\n1,"one",x\n\n2,two,y'),
        (
            "a.jsonl",
            '{"id": 1, "text": "one", "label": "x"}\n\n'
            '{"label": "y", "id": 2, "text": "two", "more": [3]}\n',
        ),
    ],
)
def test_columns_by_name(tmp_path, name, text):
    path = write(tmp_path / name, text)
    assert cells(path, ["label", "text", "id"]) == [
        ("x", "one", "1"),
        ("y", "two", "2"),
    ]
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert cells(packed, ["text"]) == [("one",), ("two",)]


def test_locations_and_row_numbers(tmp_path):
    path = write(tmp_path / "a.csv", 'a,b\n"1\n2",3\n\n4,5\n')
    rows = list(read_rows(path, {"b": "b"}, bad=BadExamples()))
    assert [row.location for row in rows] == [f"{path}:2", f"{path}:5"]
    assert [row.number for row in rows] == [0, 1]


def test_columns_by_number(tmp_path):
    path = write(tmp_path / "a.tsv", "gj04\t1\t\tIt rains.\n")
    assert cells(path, [3, 1], header=False) == [("It rains.", "1")]
    named = write(tmp_path / "b.tsv", "x\ty\n1\t2\n")
    assert cells(named, [1]) == [("2",)]
    with pytest.raises(InputError, match="a.tsv:1: no column 4 among 4"):
        cells(path, [4], header=False)
    with pytest.raises(InputError, match="column 'text' of a table without"):
        cells(path, ["text"], header=False)


def test_tsv_has_no_quoting(tmp_path):
    path = write(tmp_path / "a.tsv", 'a\tb\n"He said\t1\nno "quote"\t"2"\n')
    assert cells(path, ["a", "b"]) == [('"He said', "1"), ('no "quote"', '"2"')]


def test_blank_lines_of_a_single_column_are_rows(tmp_path):
    path = write(tmp_path / "a.tsv", "one\n\nthree\n")
    assert cells(path, [0], header=False) == [("one",), ("",), ("three",)]


def test_missing_columns(tmp_path):
    path = write(tmp_path / "a.csv", "x,y,x\n1,2,3\n")
    with pytest.raises(
        InputError, match="a.csv:1: column 'z' is not in the header, 'x', 'y'"
    ):
        cells(path, ["z"])
    with pytest.raises(
        InputError, match="column 'x' occurs 2 times in the header"
    ):
        cells(path, ["x"])
    path = write(tmp_path / "a.csv", "x;y\n1;2\n")
    with pytest.raises(InputError, match="cells are separated by commas, or"):
        cells(path, ["x"])


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.tsv", "a\tb\n1\t2\n3\n4\t5\n", "a.tsv:3: 1 columns, not 2 as in"),
        ("a.tsv", "a\tb\n1\t2\n3\t3\t3\n4\t5\n", "a.tsv:3: 3 columns, not 2"),
        ("a.csv", "a,b\n1,2\n3,3,3\n4,5\n", "a.csv:3: 3 columns, not 2"),
        (
            "a.csv",
            'a,b\n1,2\n3,"3\n4,5\n',
            "a.csv:3: a quoted cell is not closed",
        ),
        (
            "a.jsonl",
            '{"a": 1, "b": 2}\n{"a":\n{"a": 4, "b": 5}\n',
            "a.jsonl:2: not JSON",
        ),
        (
            "a.jsonl",
            '{"a": 1, "b": 2}\n{"a": 3}\n{"a": 4, "b": 5}\n',
            "a.jsonl:2: the object has no key 'b'",
        ),
        (
            "a.jsonl",
            '{"a": 1, "b": 2}\n{"a": 3, "b": ' + "9" * 5000 + "}\n"
            '{"a": 4, "b": 5}\n',
            "a.jsonl:2: not usable as JSON .Exceeds the limit",
        ),
        (
            "a.jsonl",
            '{"a": 1, "b": 2}\n[3, 3]\n{"a": 4, "b": 5}\n',
            "a.jsonl:2: not a JSON object",
        ),
        (
            "a.jsonl",
            '{"a": 1, "b": 2}\n{"a": 3, "b": {}}\n{"a": 4, "b": 5}\n',
            "a.jsonl:2: 'b' is neither a string nor a",
        ),
        (
            "a.jsonl",
            '{"a": 1, "b": 2}\n{"a": NaN, "b": 4}\n{"a": 4, "b": 5}\n',
            "a.jsonl:2: 'a' is NaN; fix the line",
        ),
    ],
)
def test_bad_rows(tmp_path, name, text, problem):
    path = write(tmp_path / name, text)
    with pytest.raises(InputError, match=problem):
        cells(path, ["a", "b"])
    bad = BadExamples("skip")
    rows = list(read_rows(path, {"a": "a", "b": "b"}, bad=bad))
    assert [tuple(row.cells.values()) for row in rows] == [
        ("1", "2"),
        ("4", "5"),
    ]
    assert [row.number for row in rows] == [0, 2]
    assert bad.counted == 1


def test_bad_headers(tmp_path):
    path = tmp_path / "a.csv"
    for header in (b"a,\xff", b'a,"b'):
        path.write_bytes(header + b"\n1,2\n3,4\n")
        with pytest.raises(InputError, match="a.csv:1: the header cannot be"):
            cells(path, [0], BadExamples("skip"), header=True)


def test_multiline_row_after_a_blank_line(tmp_path):
    path = write(tmp_path / "a.csv", '\na,b\n"1\n2",3\n')
    assert cells(path, ["a"]) == [("1\n2",)]


def test_json_values_are_returned_as_in_json(tmp_path):
    values = ["é", 1, 1.5, True, None]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"a": x}) + "\n" for x in values))
    assert [a for (a,) in cells(path, ["a"])] == ["é", "1", "1.5", "true", ""]
    with pytest.raises(
        InputError, match="column 0 of JSON lines must be given"
    ):
        cells(path, [0])


def test_files_without_their_header(tmp_path):
    names = ("index", "text", "label")
    lost = write(tmp_path / "a.tsv", "7\tone\tx\n8\ttwo\ty\n")
    kept = write(tmp_path / "b.tsv", "index\ttext\n7\tone\n")
    assert cells(lost, ["text", "index"], lost_header=names) == [
        ("one", "7"),
        ("two", "8"),
    ]
    assert cells(kept, ["text"], lost_header=names) == [("one",)]
    with pytest.raises(InputError, match="column 'text' is not in the header"):
        cells(lost, ["text"])


def test_unknown_extensions_and_empty_tables(tmp_path):
    with pytest.raises(InputError, match="a.xlsx: the name must end in .csv,"):
        cells(write(tmp_path / "a.xlsx", "x"), [0])
    for text in ("", "a\tb\n"):
        with pytest.raises(InputError, match="a.tsv: the table has no rows"):
            cells(write(tmp_path / "a.tsv", text), ["a"])


def test_long_texts(tmp_path):
    text = 'long ""text"", ' * 70_000
    path = write(tmp_path / "a.csv", f'text,label\n"{text}",x\n')
    assert cells(path, ["text", "label"]) == [(text.replace('""', '"'), "x")]


def rows_of(text, bad=None):
    lines = iter(list(enumerate(text.split("\n"), 1)))
    return list(quoted_rows(lines, "a.csv", bad or BadExamples()))


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("a,b", [["a", "b"]]),
        ('"a,b",c', [["a,b", "c"]]),
        ('"say ""no""",c', [['say "no"', "c"]]),
        ('"",""', [["", ""]]),
        ('""""', [['"']]),
        (",\n", [["", ""], [""]]),
        ('a,"b"\nc,', [["a", "b"], ["c", ""]]),
        ('a,"b\nc",d\ne,f,g', [["a", "b\nc", "d"], ["e", "f", "g"]]),
        ('"a""\nb",c', [['a"\nb', "c"]]),
        ('a 5" disk,"b"', [['a 5" disk', "b"]]),
    ],
)
def test_quoted_rows(text, rows):
    assert [cells for _, cells in rows_of(text)] == rows


def test_rows_equal_those_of_the_csv_module():
    rng = random.Random(5)
    rows = [
        ["".join(rng.choices('ab",\n ', k=rng.randint(0, 12))) for _ in "123"]
        for _ in range(500)
    ]
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(rows)
    got = rows_of(file.getvalue().removesuffix("\n"))
    assert [cells for _, cells in got] == rows


@pytest.mark.parametrize(
    "line", ['x,"open', 'x,"open,2', '"open,2', 'x,"shut" too soon']
)
@pytest.mark.parametrize(
    "after", ["c,d", '"c",d', 'c,"d"', 'c,"d, e"\nf,"g\nh"']
)
def test_unbalanced_quote_affects_its_line_only(line, after):
    text = f"a,b\n{line}\n{after}\nlast,row"
    with pytest.raises(
        InputError, match="^a.csv:2: a quoted cell is not closed"
    ):
        rows_of(text)
    bad = BadExamples("skip")
    got = rows_of(text, bad)
    assert got[:2] == [(1, ["a", "b"]), (2, None)]
    assert got[2:] == [(n + 2, cells) for n, cells in rows_of(after)] + [
        (3 + after.count("\n") + 1, ["last", "row"])
    ]
    assert bad.counted == 1


def test_lines_that_cannot_be_decoded():
    lines = iter([(1, "a,b"), (2, None), (3, 'c,"d'), (4, None), (5, "e,f")])
    bad = BadExamples("skip")
    assert list(quoted_rows(lines, "a.csv", bad)) == [
        (1, ["a", "b"]),
        (2, None),
        (3, None),
        (4, None),
        (5, ["e", "f"]),
    ]


def test_open_quote_reads_a_bounded_part_of_the_file(monkeypatch):
    monkeypatch.setattr(module, "MAX_ROW_CHARACTERS", 1000)
    taken = []

    def lines():
        yield 1, "a,b"
        yield 2, 'c,"d'
        for number in range(3, 10_000):
            taken.append(number)
            yield number, "e" * 99 + ",f"

    bad = BadExamples("skip")
    rows = quoted_rows(lines(), "a.csv", bad)
    assert [next(rows), next(rows)] == [(1, ["a", "b"]), (2, None)]
    assert len(taken) < 20
    assert next(rows) == (3, ["e" * 99, "f"])


def test_quotes_that_each_seem_to_close_another(monkeypatch):
    """Each row reaches to the end of the file, where it is not closed."""
    monkeypatch.setattr(module, "_MAX_READ_AGAIN", 1000)
    text = 'a",b,"\n' * 100
    bad = BadExamples("skip")
    with pytest.raises(InputError, match="^a.csv:11: too many quoted cells"):
        rows_of(text, bad)
    assert len(rows_of('a",b,"\n' * 40, bad)) == 41


HOSTILE = ["a, b", 'say "x"', "two\nlines", "cr\rlf\r\n", "tab\t", " ", "", "ü"]


def test_lines_of_predictions():
    record = {
        "id": "7",
        "label": "id",
        "probabilities": {"id": 0.9, "label": 0.1, "a\tb\n": 3e-8},
        "tokens": ["left", "out"],
    }
    file = io.StringIO()
    writer = TableWriter(file, "tsv")
    writer.write(None, [record])
    header, row = file.getvalue().splitlines()
    assert header.split("\t") == [
        *("id", "label", "probabilities.id", "probabilities.label", "a b ")
    ]
    assert row.split("\t") == ["7", "id", "0.900000", "0.100000", "3e-08"]
    writer.write(None, [record])
    assert file.getvalue().splitlines() == [header, row, row]


def test_tables_have_one_header():
    """A table of vectors has no place for the similarity of a pair."""
    file = io.StringIO()
    writer = TableWriter(file, "tsv")
    writer.write_record({"id": "0", "embedding": [0.5, 0.25]}, "vector")
    with pytest.raises(InputError, match="columns id, 0, 1, but 7 has id, sim"):
        writer.write_record({"id": "7", "similarity": 0.5}, "vector")
    assert file.getvalue() == "id\t0\t1\n0\t0.500000\t0.250000\n"


@pytest.mark.parametrize(
    "reader", ["csv", pytest.param("pandas", marks=pytest.mark.peer), "ours"]
)
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


def test_a_key_that_the_first_object_lacks(tmp_path):
    """It would change what the file is read as."""
    columns = {"text": "text", "id": "id"}
    path = write(
        tmp_path / "a.jsonl",
        '{"text": "x"}\n{"text": "y", "id": "7"}\n{"text": "z"}\n',
    )
    with pytest.raises(
        InputError, match="jsonl:2: the object has the key 'id'"
    ):
        list(read_rows(path, columns, optional=("id",), bad=BadExamples()))
    bad = BadExamples("skip")
    rows = read_rows(path, columns, optional=("id",), bad=bad)
    assert [row.cells for row in rows] == [{"text": "x"}, {"text": "z"}]
    assert bad.counted == 1
