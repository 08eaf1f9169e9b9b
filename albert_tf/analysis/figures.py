"""Figures, as matplotlib draws them without a screen, and Markdown tables."""

from __future__ import annotations

import math
import os
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from albert_tf.errors import InputError, import_package

# Okabe and Ito's colours, which colour-blind readers can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def import_pyplot() -> Any:
    """Returns pyplot, which draws without a screen.

    Raises:
      InputError: matplotlib is not installed.
    """
    matplotlib = import_package("matplotlib", "pictures")
    # A notebook keeps the backend that shows its figures.
    if "matplotlib.pyplot" not in sys.modules:
        matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def save_figure(figure: Any, output: str | os.PathLike[str]) -> None:
    """Writes a figure of pyplot, and closes it.

    Args:
      figure: the figure.
      output: the picture to write; its ending says the format.

    Raises:
      InputError: the picture cannot be written there.
    """
    from matplotlib import pyplot

    try:
        figure.savefig(output, dpi=110)
    except (OSError, ValueError) as error:
        raise InputError(f"output {os.fspath(output)}: {error}") from error
    finally:
        pyplot.close(figure)


def label_lines(axis: Any) -> None:
    """Writes the label of each line of an axis at its right end.

    Call it last: labels that would overlap are moved apart within the limits
    that the axis has then.
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
    """Returns a Markdown table whose columns are aligned in a terminal, too.

    All columns but the first are flush right.
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
    """Returns text with codes for all that is not to be seen as it stands.

    Pieces of a vocabulary may be any character: here even spaces of other
    scripts get codes, which `errors.printable` leaves as they are.
    """
    return "".join(
        x if x.isprintable() else x.encode("unicode_escape").decode()
        for x in text
    )
