"""Rows of CSV: cells with quotes, which may hold commas and line ends."""

from __future__ import annotations

import collections
import re
from collections.abc import Callable, Iterator

from albert_tf.data.examples.bad_examples import BadExamples

# A quote that is never closed must not swallow a file of any size.
MAX_ROW_CHARACTERS = 16_000_000

_PLAIN = re.compile(r"[^,]*")
_QUOTED = re.compile(r'[^"]*(?:""[^"]*)*')


class _UnbalancedQuoteError(Exception):
    """A quote opens a cell and none closes it where a cell may end."""


def quoted_rows(
    lines: Iterator[tuple[int, str | None]], place: str, bad: BadExamples
) -> Iterator[tuple[int, list[str] | None]]:
    """Splits lines of CSV into rows of cells (RFC 4180).

    A cell is quoted if it begins with a quote; elsewhere quotes are characters
    like others. A quote that is not closed makes a bad example of the line that
    it is in alone: reading goes on with the next line. The same goes for a row
    over several lines whose number of cells is not that of the first row, which
    is what becomes of a quote that the next quoted cell seems to close.

    Args:
      lines: their numbers and texts without line ends; None: cannot be read.
      place: the file, for messages.
      bad: is told of unbalanced quotes.

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
                f"{place}:{number}",
                "a quote opens a cell and none closes it (closing quotes stand "
                'before a comma or a line end, and quotes inside are ""); mend '
                "the line",
            )
            yield number, None
            continue
        width = width or len(cells)
        yield number, cells


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
            part = _QUOTED.match(line, at + 1)
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
                part = _QUOTED.match(line)
                parts.append(part[0])
            cells.append("\n".join(parts).replace('""', '"'))
            at = part.end() + 1
        else:
            part = _PLAIN.match(line, at)
            cells.append(part[0])
            at = part.end()
        if at == len(line):
            return cells
        if line[at] != ",":
            raise _UnbalancedQuoteError
        at += 1
