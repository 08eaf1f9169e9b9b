"""Tables: rows of CSV, TSV and JSON lines, with their locations."""

from __future__ import annotations

import collections
import dataclasses
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from albert_tf.errors import InputError
from albert_tf.finetuning.examples import (
    BadExamples,
    parse_json,
    read_lines,
    split_name,
)

# A quote that is never closed must not swallow a file of any size.
MAX_ROW_CHARACTERS = 16_000_000

_TABS_AND_LINE_BREAKS = re.compile(r"[\t\r\n]+")
_PLAIN = re.compile(r"[^,]*")
_QUOTED = re.compile(r'[^"]*(?:""[^"]*)*')


class _UnbalancedQuoteError(Exception):
    """A quote opens a cell and none closes it where a cell may end."""


def quoted_rows(
    lines: Iterator[tuple[int, str | None]], location: str, bad: BadExamples
) -> Iterator[tuple[int, list[str] | None]]:
    """Splits lines of CSV into rows of cells (RFC 4180).

    A cell is quoted if it begins with a quote; elsewhere quotes are characters
    like others. A quote that is not closed makes a bad example of the line that
    it is in alone: reading goes on with the next line. The same goes for a row
    over several lines whose number of cells is not that of the first row, which
    is what becomes of a quote that the next quoted cell seems to close.

    Args:
      lines: their numbers and texts without line ends; None: cannot be read.
      location: the file, for messages.
      bad: collects unbalanced quotes.

    Yields:
      The number of a row's first line and its cells, None for a bad row; blank
      lines are rows of one empty cell.
    """
    waiting: collections.deque[tuple[int, str | None]] = collections.deque()

    def next_line() -> tuple[int, str | None] | None:
        return waiting.popleft() if waiting else next(lines, None)

    width: int | None = None
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
        try:
            cells = _split_quoted(line, next_line, more)
            if more and width not in (None, len(cells)):
                raise _UnbalancedQuoteError
        except _UnbalancedQuoteError:
            waiting.extendleft(reversed(more))
            bad.report(
                f"{location}:{number}",
                "a quote opens a cell and none closes it (closing quotes stand "
                'before a comma or a line end, and quotes inside are ""); fix '
                "the line",
            )
            yield number, None
            continue
        width = width or len(cells)
        yield number, cells


def _match(pattern: re.Pattern[str], line: str, at: int = 0) -> re.Match[str]:
    """Returns the match of a pattern that matches "" and so everywhere."""
    match = pattern.match(line, at)
    assert match is not None
    return match


def _split_quoted(
    line: str,
    next_line: Callable[[], tuple[int, str | None] | None],
    more: list[tuple[int, str | None]],
) -> list[str]:
    """Returns the cells of a row.

    Args:
      line: the first line of the row.
      next_line: gives the following ones, None at the end.
      more: gets the lines that were taken.

    Raises:
      _UnbalancedQuoteError: the row has no end.
    """
    cells = []
    at = size = 0
    while True:
        if line.startswith('"', at):
            part = _match(_QUOTED, line, at + 1)
            parts = [part[0]]
            while part.end() == len(line):
                size += len(line)
                numbered = next_line() if size <= MAX_ROW_CHARACTERS else None
                if numbered is None:
                    raise _UnbalancedQuoteError
                more.append(numbered)
                if numbered[1] is None:
                    raise _UnbalancedQuoteError
                line = numbered[1]
                part = _match(_QUOTED, line)
                parts.append(part[0])
            cells.append("\n".join(parts).replace('""', '"'))
            at = part.end() + 1
        else:
            part = _match(_PLAIN, line, at)
            cells.append(part[0])
            at = part.end()
        if at == len(line):
            return cells
        if line[at] != ",":
            raise _UnbalancedQuoteError
        at += 1


# Ending of the name -> how a row is written.
FORMATS = {
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
      number: of the row in the table, bad ones counted, from 0.
      location: "file:line", of its first line.
      cells: what the wanted columns hold, in the order asked for.
    """

    number: int
    location: str
    cells: tuple[str, ...]


def read_rows(
    path: str | os.PathLike[str],
    columns: Sequence[str | int],
    *,
    header: bool = True,
    lost_header: Sequence[str] = (),
    bad: BadExamples,
) -> Iterator[Row]:
    """Reads some columns of a table, in constant memory.

    The ending of the name, before `.gz`, says how rows are written: `.csv` with
    commas and quotes, `.tsv` and `.txt` with tabs and no quoting at all, and
    `.jsonl` and `.ndjson` with a JSON object a line, whose numbers and truth
    values are taken as JSON spells them and whose nulls are empty. Blank lines
    are left out, unless the table has one column.

    Args:
      path: the file.
      columns: names of the header or keys of the objects; or numbers from 0.
      header: whether the first line has the names; JSON lines have none.
      lost_header: names of the columns of files that are known to go about
        without their header; they are used where the first line begins with a
        whole number, not with a name.
      bad: collects rows with another number of columns than the first one,
        with unbalanced quotes, that are not UTF-8, or that are not JSON
        objects with the columns.

    Yields:
      The rows.

    Raises:
      InputError: the file cannot be read, its name has another ending, it has
        not got the columns, its header cannot be read, or it has no row.
    """
    ending = split_name(path)
    if ending not in FORMATS:
        raise InputError(
            f"{path}: the name must end in {', '.join(FORMATS)}, perhaps with "
            ".gz; convert the file"
        )
    lines = read_lines(path, bad)
    if FORMATS[ending] == "jsonl":
        rows = _json_rows(path, lines, columns, bad)
    else:
        if FORMATS[ending] == "csv":
            split = quoted_rows(lines, os.fspath(path), bad)
        else:
            split = (
                (number, None if line is None else line.split("\t"))
                for number, line in lines
            )
        rows = _delimited_rows(path, split, columns, header, lost_header, bad)
    number = -1
    for number, (line, cells) in enumerate(rows):
        if cells is not None:
            yield Row(number=number, location=f"{path}:{line}", cells=cells)
    if number < 0:
        raise InputError(f"{path}: the table has no row; name another file")


def _delimited_rows(
    path: str | os.PathLike[str],
    rows: Iterable[tuple[int, list[str] | None]],
    columns: Sequence[str | int],
    header: bool,
    lost_header: Sequence[str],
    bad: BadExamples,
) -> Iterator[tuple[int, tuple[str, ...] | None]]:
    """Yields lines and wanted cells; None for cells of a bad row."""
    numbers: list[int] = []
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
            numbers = _column_numbers(
                f"{path}:{line}", columns, names if header else None, width
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
            yield line, tuple(cells[number] for number in numbers)


def _column_numbers(
    location: str,
    columns: Sequence[str | int],
    names: Sequence[str] | None,
    width: int,
) -> list[int]:
    """Returns the numbers of the wanted columns.

    Args:
      location: for messages.
      columns: their names or numbers.
      names: of all columns; None: there is no header.
      width: how many columns there are.
    """
    numbers = []
    for column in columns:
        if isinstance(column, int):
            if not 0 <= column < width:
                raise InputError(
                    f"{location}: no column {column} among {width} (the first "
                    "is 0); give another number"
                )
            numbers.append(column)
        elif names is None:
            raise InputError(
                f"{location}: column {column!r} of a table without header must "
                "be given by its number"
            )
        elif names.count(column) != 1:
            times = names.count(column)
            trouble = f"there {times} times" if times else "not in the header"
            shown = ", ".join(map(repr, names[:20]))
            raise InputError(
                f"{location}: column {column!r} is {trouble}, which has "
                f"{shown[:300]}; give another name"
            )
        else:
            numbers.append(names.index(column))
    return numbers


def _json_rows(
    path: str | os.PathLike[str],
    lines: Iterable[tuple[int, str | None]],
    columns: Sequence[str | int],
    bad: BadExamples,
) -> Iterator[tuple[int, tuple[str, ...] | None]]:
    """Yields lines and wanted cells; None for cells of a bad row."""
    for column in columns:
        if not isinstance(column, str):
            raise InputError(
                f"{path}: column {column} of JSON lines must be named by its "
                "key"
            )
    for line, text in lines:
        if text is None:
            yield line, None
            continue
        if not text.strip():
            continue
        value, problem = parse_json(text)
        cells = None
        if not problem:
            cells, problem = _json_cells(value, columns)
        if cells is None:
            bad.report(f"{path}:{line}", f"{problem}; fix the line")
        yield line, cells


def _json_cells(
    value: Any, columns: Sequence[str | int]
) -> tuple[tuple[str, ...] | None, str]:
    """Returns the wanted cells of an object, or None and what is wrong."""
    if not isinstance(value, dict):
        return None, "not a JSON object"
    cells = []
    for column in columns:
        if column not in value:
            return None, f"the object has no key {column!r}"
        cell = value[column]
        if isinstance(cell, (dict, list)):
            return None, f"{column!r} is not a text or a number"
        if cell is None:
            cell = ""
        cells.append(cell if isinstance(cell, str) else json.dumps(cell))
    return tuple(cells), ""


def table_lines(record: Mapping[str, Any], *, header: bool) -> list[str]:
    """Returns the lines of a TSV file that hold a record of JSON values.

    Args:
      record: a column for each value that is not a list; nested values have
        columns of their own.
      header: whether the names of the columns come first.
    """
    cells = _cells(record)
    lines = ["\t".join(cells)] if header else []
    return [*lines, "\t".join(cells.values())]


def _cells(record: Mapping[str, Any]) -> dict[str, str]:
    """Returns the columns of a record; lists have none."""
    cells = {}
    for name, value in record.items():
        if isinstance(value, Mapping):
            cells |= _cells(value)
        elif isinstance(value, float):
            cells[name] = f"{value:.6f}"
        elif not isinstance(value, list):
            cells[name] = _TABS_AND_LINE_BREAKS.sub(" ", str(value))
    return cells
