"""Tables for terminals and in Markdown."""

from __future__ import annotations

from collections.abc import Sequence


def text_table(rows: Sequence[Sequence[str]], left: int) -> str:
    """Formats a table whose columns are aligned in a terminal.

    Args:
      rows: the cells, those of the header first.
      left: number of columns that are aligned to the left, before those that
        are aligned to the right.
    """
    return "\n".join(
        "  ".join(cells).rstrip() for cells in _aligned(rows, left)
    )


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Formats a Markdown table whose columns are also aligned in a terminal.

    All columns but the first are right-aligned.
    """
    cells = [
        [escaped(x).replace("|", "\\|") for x in row] for row in (header, *rows)
    ]
    lines = _aligned(cells, left=1, least=3)
    widths = map(len, lines[0])
    rule = [f"{'-' * (x - 1)}{':' if i else '-'}" for i, x in enumerate(widths)]
    return "\n".join(
        f"| {' | '.join(x)} |" for x in (lines[0], rule, *lines[1:])
    )


def escaped(text: str) -> str:
    """Escapes characters that are invisible or not printable.

    Pieces of a vocabulary may be any character. Unlike `errors.printable`, this
    also escapes all spaces but the ASCII one.
    """
    return "".join(
        x if x.isprintable() else x.encode("unicode_escape").decode()
        for x in text
    )


def _aligned(
    rows: Sequence[Sequence[str]], left: int, least: int = 0
) -> list[list[str]]:
    """Pads cells to the width of their column, which is at least `least`.

    The first `left` columns are aligned to the left, others to the right.
    """
    widths = [
        max(least, *map(len, column)) for column in zip(*rows, strict=True)
    ]
    return [
        [
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        for row in rows
    ]
