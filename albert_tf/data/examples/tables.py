"""Tables: rows of CSV, TSV and JSON lines, with their places."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from albert_tf.data.examples.bad_examples import BadExamples
from albert_tf.data.examples.quoted_rows import quoted_rows
from albert_tf.data.examples.text_files import (
    parse_json,
    read_lines,
    split_name,
)
from albert_tf.errors import InputError

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
      place: "file:line", of its first line.
      cells: what the wanted columns hold, in the order asked for.
    """

    number: int
    place: str
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
      bad: is told of rows with another number of columns than the first one,
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
            yield Row(number=number, place=f"{path}:{line}", cells=cells)
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
                    f"{path}:{line}: the header cannot be read; mend the line"
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
                "mend the line",
            )
            yield line, None
        else:
            yield line, tuple(cells[number] for number in numbers)


def _column_numbers(
    place: str,
    columns: Sequence[str | int],
    names: Sequence[str] | None,
    width: int,
) -> list[int]:
    """Returns the numbers of the wanted columns.

    Args:
      place: for messages.
      columns: their names or numbers.
      names: of all columns; None: there is no header.
      width: how many columns there are.
    """
    numbers = []
    for column in columns:
        if isinstance(column, int):
            if not 0 <= column < width:
                raise InputError(
                    f"{place}: no column {column} among {width} (the first is "
                    "0); give another number"
                )
            numbers.append(column)
        elif names is None:
            raise InputError(
                f"{place}: column {column!r} of a table without header must "
                "be given by its number"
            )
        elif names.count(column) != 1:
            times = names.count(column)
            trouble = f"there {times} times" if times else "not in the header"
            shown = ", ".join(map(repr, names[:20]))
            raise InputError(
                f"{place}: column {column!r} is {trouble}, which has "
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
            bad.report(f"{path}:{line}", f"{problem}; mend the line")
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
