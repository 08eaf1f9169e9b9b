import csv
import io
import random

import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning import tables as module
from albert_tf.finetuning.examples import BadExamples
from albert_tf.finetuning.tables import quoted_rows


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
def test_rows(text, rows):
    assert [cells for _, cells in rows_of(text)] == rows


def test_rows_are_those_of_the_csv_module():
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
    "line",
    [
        'x,"open',
        'x,"open,2',
        '"open,2',
        'x,"shut" too soon',
    ],
)
@pytest.mark.parametrize(
    "after", ["c,d", '"c",d', 'c,"d"', 'c,"d, e"\nf,"g\nh"']
)
def test_an_unbalanced_quote_costs_its_line_alone(line, after):
    text = f"a,b\n{line}\n{after}\nlast,row"
    with pytest.raises(InputError, match="^a.csv:2: a quote opens a cell"):
        rows_of(text)
    bad = BadExamples("skip")
    got = rows_of(text, bad)
    assert got[:2] == [(1, ["a", "b"]), (2, None)]
    assert got[2:] == [(n + 2, cells) for n, cells in rows_of(after)] + [
        (3 + after.count("\n") + 1, ["last", "row"])
    ]
    assert bad.counted == 1


def test_lines_that_cannot_be_read():
    lines = iter([(1, "a,b"), (2, None), (3, 'c,"d'), (4, None), (5, "e,f")])
    bad = BadExamples("skip")
    assert list(quoted_rows(lines, "a.csv", bad)) == [
        (1, ["a", "b"]),
        (2, None),
        (3, None),
        (4, None),
        (5, ["e", "f"]),
    ]


def test_an_open_quote_takes_a_bounded_part_of_the_file(monkeypatch):
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


def test_a_text_of_a_megabyte():
    text = 'long ""text"", ' * 70_000
    [(_, cells)] = rows_of(f'"{text}",1')
    assert cells == [text.replace('""', '"'), "1"]
