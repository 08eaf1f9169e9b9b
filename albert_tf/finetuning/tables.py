"""Reading of CSV, TSV and JSON Lines tables."""

from __future__ import annotations

import collections
import csv
import dataclasses
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from albert_tf.errors import InputError
from albert_tf.finetuning.examples import (
    BadExamples,
    file_extension,
    json_lines,
    read_lines,
)

# An unclosed quote must not consume a file of any size.
MAX_ROW_CHARACTERS = 16_000_000
# Lines to read again after rows that seemed to have several: some seconds.
_MAX_READ_AGAIN = 10_000_000


def quoted_rows(
    lines: Iterator[tuple[int, str | None]], location: str, bad: BadExamples
) -> Iterator[tuple[int, list[str] | None]]:
    """Splits lines of CSV into rows of cells (RFC 4180).

    A cell is quoted if it begins with a quote; other quotes are ordinary
    characters. A line with an unclosed quote is reported as bad, and reading
    continues with the next line. So is a row of several lines whose number of
    cells differs from the first row's, because the next quoted cell may seem to
    close the quote.

    Yields:
      The number of a row's first line, and its cells, or None for a bad row.
      Blank lines are rows of one empty cell.

    Raises:
      InputError: if so many quotes are not closed that reading does not get on.
    """
    waiting: collections.deque[tuple[int, str | None]] = collections.deque()

    def next_line() -> tuple[int, str | None] | None:
        return waiting.popleft() if waiting else next(lines, None)

    width: int | None = None
    read_again = 0
    while (numbered := next_line()) is not None:
        number, line = numbered
        if line is None:
            yield number, None
            continue
        if '"' not in line:
            cells = line.split(",")
            if line.strip():
                width = width or len(cells)
            yield number, cells
            continue
        more: list[tuple[int, str | None]] = []

        def lines_of_row(first=line, more=more):
            yield f"{first}\n"
            while (numbered := next_line()) is not None:
                more.append(numbered)
                if numbered[1] is None:
                    return
                yield f"{numbered[1]}\n"

        try:
            cells = _split_quoted(lines_of_row())
            if more and width not in (None, len(cells)):
                raise csv.Error
        except csv.Error:
            waiting.extendleft(reversed(more))
            read_again += len(more)
            if read_again > _MAX_READ_AGAIN:
                raise InputError(
                    f"{location}:{number}: too many quoted cells are not "
                    'closed; write quotes in cells as "", or give a .tsv file, '
                    "in which quotes are ordinary characters"
                ) from None
            bad.report(
                f"{location}:{number}",
                "a quoted cell is not closed (a closing quote is followed by a "
                'comma or the line end, and quotes inside are ""); fix the '
                "line",
            )
            yield number, None
            continue
        width = width or len(cells)
        yield number, cells


def _split_quoted(lines: Iterator[str]) -> list[str]:
    """Splits a row of one or more lines; a `csv.Error` is an unclosed quote."""
    limit = csv.field_size_limit(MAX_ROW_CHARACTERS)
    try:
        return next(csv.reader(lines, strict=True))
    finally:
        csv.field_size_limit(limit)


Format = Literal["tsv", "csv", "jsonl"]

# File extension -> format.
FORMATS: Mapping[str, Format] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".txt": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """A row of a table.

    Attributes:
      number: index of the row in the table, including bad rows.
      location: location of its first line, "file:line".
      cells: values of the requested columns, by key.
    """

    number: int
    location: str
    cells: Mapping[str, str]


def read_rows(
    path: str | os.PathLike[str],
    columns: Mapping[str, str | int],
    *,
    optional: Sequence[str] = (),
    header: bool = True,
    lost_header: Sequence[str] = (),
    bad: BadExamples,
) -> Iterator[Row]:
    """Reads columns of a table in constant memory.

    The file extension, before `.gz`, determines the format: `.csv` has commas
    and quotes, `.tsv` and `.txt` have tabs and no quoting, and `.jsonl` and
    `.ndjson` have a JSON object per line. Numbers and booleans of JSON are
    returned as text, nulls as "". Blank lines are skipped, unless the table has
    a single column.

    Args:
      columns: names of columns, or their indices, by key.
      optional: keys of columns that the table may lack. With JSON Lines, the
        first object decides.
      header: whether the first line has the names of the columns; ignored for
        JSON Lines.
      lost_header: column names of files that are also distributed without their
        header; used if the first cell is an integer.
      bad: collects rows with a different number of columns than the first one,
        with unbalanced quotes, that are not UTF-8, or that are not JSON objects
        with the columns.

    Raises:
      InputError: if the file cannot be read, has another extension, has no such
        columns, no readable header or no rows.
    """
    extension = file_extension(path)
    if extension not in FORMATS:
        raise InputError(
            f"{path}: the name must end in {', '.join(FORMATS)}, optionally "
            "followed by .gz; convert the file"
        )
    if FORMATS[extension] == "jsonl":
        rows = _json_rows(path, columns, optional, bad)
    else:
        lines = read_lines(path, bad)
        if FORMATS[extension] == "csv":
            split = quoted_rows(lines, os.fspath(path), bad)
        else:
            split = (
                (number, None if line is None else line.split("\t"))
                for number, line in lines
            )
        rows = _delimited_rows(
            path, split, columns, optional, header, lost_header, bad
        )
    number = -1
    for number, (line, cells) in enumerate(rows):
        if cells is not None:
            yield Row(number=number, location=f"{path}:{line}", cells=cells)
    if number < 0:
        raise InputError(f"{path}: the table has no rows; give another file")


def _delimited_rows(
    path: str | os.PathLike[str],
    rows: Iterable[tuple[int, list[str] | None]],
    columns: Mapping[str, str | int],
    optional: Sequence[str],
    header: bool,
    lost_header: Sequence[str],
    bad: BadExamples,
) -> Iterator[tuple[int, dict[str, str] | None]]:
    """Yields line numbers and requested cells, None for a bad row."""
    indices: dict[str, int] = {}
    width = first_line = 0
    for line, cells in rows:
        if cells is None:
            if header and not width:
                raise InputError(
                    f"{path}:{line}: the header cannot be read; fix the line"
                )
            yield line, None
            continue
        if width != 1 and len(cells) == 1 and not cells[0].strip():
            continue
        if not width:
            width, first_line = len(cells), line
            lost = bool(lost_header) and cells[0].isdecimal()
            names = lost_header[:width] if lost else [c.strip() for c in cells]
            known = names if header else None
            indices = _column_indices(
                f"{path}:{line}", columns, optional, known, width
            )
            if header and not lost:
                continue
        if len(cells) != width:
            bad.report(
                f"{path}:{line}",
                f"{len(cells)} columns, not {width} as in line {first_line}; "
                "fix the line",
            )
            yield line, None
        else:
            yield line, {key: cells[index] for key, index in indices.items()}


def _column_indices(
    location: str,
    columns: Mapping[str, str | int],
    optional: Sequence[str],
    names: Sequence[str] | None,
    width: int,
) -> dict[str, int]:
    """Returns the indices of columns by key.

    `names` and `width` are the names (None without a header) and the number of
    all columns.
    """
    indices = {}
    for key, column in columns.items():
        if isinstance(column, int):
            if column >= width and key in optional:
                continue
            if not 0 <= column < width:
                raise InputError(
                    f"{location}: no column {column} among {width} (the first "
                    "is 0); give another number"
                )
            indices[key] = column
        elif key in optional and column not in (names or ()):
            continue
        elif names is None:
            raise InputError(
                f"{location}: column {column!r} of a table without header must "
                "be given by its number"
            )
        elif names.count(column) != 1:
            count = names.count(column)
            problem = f"occurs {count} times" if count else "is not"
            listed = ", ".join(map(repr, names[:20]))
            advice = f"give another name (--task=text: --{key}_column)"
            if len(names) == 1 and re.search("[,;\t|]", names[0]):
                advice = "cells are separated by commas, or tabs in .tsv files"
            raise InputError(
                f"{location}: column {column!r} {problem} in the header, "
                f"{listed[:300]}; {advice}"
            )
        else:
            indices[key] = names.index(column)
    return indices


def _json_rows(
    path: str | os.PathLike[str],
    columns: Mapping[str, str | int],
    optional: Sequence[str],
    bad: BadExamples,
) -> Iterator[tuple[int, dict[str, str] | None]]:
    """Yields line numbers and requested cells, None for a bad row."""
    for key, column in columns.items():
        if key not in optional and not isinstance(column, str):
            raise InputError(
                f"{path}: column {column} of JSON lines must be given by its "
                "key"
            )
    missing: set[str | int] | None = None  # Keys that the first object lacks.
    for line, value in json_lines(path, bad):
        if value is None:
            yield line, None
            continue
        if missing is None:
            missing = {columns[x] for x in optional} - value.keys()
            columns = {x: k for x, k in columns.items() if k not in missing}
        cells, problem = _json_cells(value, columns)
        if added := missing & value.keys():
            cells = None
            problem = f"the object has the key {min(map(str, added))!r}, which "
            problem += "the first one lacks"
        if problem:
            bad.report(f"{path}:{line}", f"{problem}; fix the line")
        yield line, cells


def _json_cells(
    value: Mapping[Any, Any], columns: Mapping[str, str | int]
) -> tuple[dict[str, str] | None, str]:
    """Returns requested values of an object and "", or None and the problem."""
    cells = {}
    for key, column in columns.items():
        if column not in value:
            return None, f"the object has no key {column!r}"
        cell = value[column]
        if isinstance(cell, (dict, list)):
            return None, f"{column!r} is neither a string nor a number"
        if isinstance(cell, float) and not math.isfinite(cell):
            return None, f"{column!r} is {json.dumps(cell)}"
        if cell is None:
            cell = ""
        cells[key] = cell if isinstance(cell, str) else json.dumps(cell)
    return cells, ""
