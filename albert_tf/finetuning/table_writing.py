"""Writing of CSV, TSV and JSON Lines tables."""

from __future__ import annotations

import csv
import io
import json
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TextIO

from albert_tf.errors import InputError
from albert_tf.finetuning.tables import FORMATS, Format

_TABS_AND_LINE_BREAKS = re.compile(r"[\t\r\n]+")


def output_format(
    output: str | None, given: Format | None, default: Format
) -> Format:
    """Returns the format in which to write a file, `given` or by its name.

    `default` is the format of standard output (None), and of names that end in
    `.txt` or have no extension.

    Raises:
      InputError: if the name ends in something else than a known format.
    """
    if given is not None:
        return given
    extension = pathlib.Path(output or "").suffix.lower()
    if extension in ("", ".txt"):
        return default
    if extension not in FORMATS:
        raise InputError(
            f"output={output}: no format has the extension {extension}; choose "
            ".csv, .tsv or .jsonl, or give the format"
        )
    return FORMATS[extension]


def _lines(
    cells: Sequence[tuple[str, str]], header: bool, format: Format
) -> list[str]:
    """Formats the `_cells` of a record as lines of a table.

    "csv" (RFC 4180) quotes cells with commas, quotes or line breaks, and a cell
    with line breaks is several lines of the file; tabs and line breaks become
    blanks in "tsv".
    """
    rows = zip(*cells, strict=True) if header else [[x for _, x in cells]]
    if format == "csv":
        return [_csv_line(row) for row in rows]
    return [
        "\t".join(_TABS_AND_LINE_BREAKS.sub(" ", cell) for cell in row)
        for row in rows
    ]


def _csv_line(cells: Sequence[str]) -> str:
    line = io.StringIO()
    # Until Python 3.13, it quotes a carriage return only if lines end with one.
    csv.writer(line, lineterminator="\r\n").writerow(cells)
    return line.getvalue().removesuffix("\r\n")


def _cells(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields the names and cells of a flattened record, without its lists."""
    for name, value in record.items():
        if isinstance(value, Mapping):
            for inner, cell in _cells(value):
                # A class may be called "id" or "label".
                yield f"{name}.{inner}" if inner in record else inner, cell
        elif isinstance(value, float):
            is_small = 0.0 < abs(value) < 1e-4
            yield name, f"{value:.6g}" if is_small else f"{value:.6f}"
        elif not isinstance(value, list):
            yield name, str(value)


def _word_rows(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns a row per word, with the id of its sentence."""
    return [
        {"id": record["id"], "word": word, "label": label}
        for word, label in zip(record["words"], record["labels"], strict=True)
    ]


def _vector_rows(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns a row, with a column for each value of an embedding."""
    values = enumerate(record.get("embedding", ()))
    return [{**record, **{str(number): x for number, x in values}}]


# How predictions are written to tables: as a row, a row with a column for each
# value of a vector, or a row for each word; TSV files are then CoNLL's.
Layout = Literal["row", "vector", "words"]
_ROWS: Mapping[Layout, Callable[[Mapping[str, Any]], Sequence[Mapping]]] = {
    "row": lambda record: [record],
    "vector": _vector_rows,
    "words": _word_rows,
}


def _named(columns: Sequence[str]) -> str:
    """Names columns, the first few if there are many."""
    return ", ".join(columns[:5]) + (", ..." if columns[5:] else "")


class TableWriter:
    """Writes results to a file, as JSON values or as rows of a table."""

    def __init__(self, file: TextIO, format: Format):
        self._file = file
        self.format = format
        self._columns: list[str] | None = None

    def write(self, value: Any, rows: Sequence[Mapping[str, Any]]) -> None:
        """Writes a JSON value or, unless the format is "jsonl", its rows.

        Rows have the names of their columns.
        """
        if self.format == "jsonl":
            self.write_lines([json.dumps(value, ensure_ascii=False)])
            return
        for row in rows:
            cells = list(_cells(row))
            columns = [name for name, _ in cells]
            is_first = self._columns is None
            if self._columns is not None and self._columns != columns:
                raise InputError(
                    f"the table has the columns {_named(self._columns)}, but "
                    f"{row.get('id', 'a row')} has {_named(columns)}; write "
                    "them as JSON lines (.jsonl), or each to its own table"
                )
            self._columns = columns
            self.write_lines(_lines(cells, is_first, self.format))

    def write_record(self, record: Mapping[str, Any], layout: Layout) -> None:
        """Writes a prediction, see `TaskType.record`."""
        if layout == "words" and self.format == "tsv":
            pairs = zip(record["words"], record["labels"], strict=True)
            self.write_lines([*(f"{x}\t{label}" for x, label in pairs), ""])
        else:
            self.write(record, _ROWS[layout](record))

    def write_lines(self, lines: Sequence[str]) -> None:
        """Writes lines."""
        self._file.writelines(f"{line}\n" for line in lines)
