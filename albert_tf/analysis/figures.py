"""Figures drawn by matplotlib, and Markdown tables."""

from __future__ import annotations

import io
import math
import os
import pathlib
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from albert_tf.analysis.fonts import fallback_fonts
from albert_tf.errors import InputError, import_package
from albert_tf.files import creating, write_atomically

# Okabe and Ito's palette for colour-blind readers.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def import_pyplot() -> Any:
    """Imports pyplot with a backend that needs no display.

    Raises:
      InputError: If matplotlib is not installed.
    """
    matplotlib = import_package("matplotlib", "pictures")
    # A notebook keeps its own backend, which shows figures.
    if "matplotlib.pyplot" not in sys.modules:
        matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def save_figure(figure: Any, output: str | os.PathLike[str]) -> None:
    """Writes a pyplot figure to a file, and closes it.

    An existing file is replaced when the new one is complete.

    Args:
      figure: the figure.
      output: image file to write; its suffix selects the format, PNG without
        one.

    Raises:
      InputError: If the file cannot be written.
      StorageError: if the disk is full.
    """
    from matplotlib import pyplot

    image = io.BytesIO()
    # Drawn in memory, as matplotlib adds a suffix to names without one.
    try:
        suffix = pathlib.Path(output).suffix.lower()
        with fallback_fonts(figure):
            figure.savefig(image, dpi=110, format=suffix[1:] or "png")
    except ValueError as error:
        raise InputError(f"output {os.fspath(output)}: {error}") from error
    finally:
        pyplot.close(figure)
    with creating(output):
        write_atomically(output, image.getvalue())


def label_lines(axis: Any) -> None:
    """Writes the label of each line of an axis at its right end.

    Labels that would overlap are moved apart. Call it after the limits of the
    axis are set.
    """
    to_axes = axis.transData + axis.transAxes.inverted()
    ends = []
    for line in axis.get_lines():
        x, y = (values[-1] for values in line.get_data())
        ends.append((to_axes.transform((x, y))[1], x, line))
    free = -math.inf
    for height, x, line in sorted(ends, key=lambda end: end[0]):
        lines = textwrap.wrap(line.get_label(), 20, break_on_hyphens=False)
        half = 0.04 * len(lines)
        middle = max(height, free + half)
        free = middle + half
        axis.annotate(
            "\n".join(lines),
            (x, middle),
            xycoords=("data", "axes fraction"),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            color=line.get_color(),
            fontsize=9,
            annotation_clip=False,
            parse_math=False,
        )


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Formats a Markdown table whose columns are also aligned in a terminal.

    All columns but the first are right-aligned.
    """
    cells = [
        [escaped(x).replace("|", "\\|") for x in row] for row in (header, *rows)
    ]
    widths = [max(3, *map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        [
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        for row in cells
    ]
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
