"""Figures drawn by matplotlib, and fonts for them."""

from __future__ import annotations

import contextlib
import io
import logging
import math
import os
import pathlib
import sys
import textwrap
import unicodedata
import warnings
from collections.abc import Iterator
from typing import Any

from albert_tf.errors import InputError
from albert_tf.files import creating, write_atomically
from albert_tf.optional_packages import import_package

_logger = logging.getLogger(__name__)

# Tried in this order, before any other font that has the characters.
_PREFERRED = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",  # Names the same file before matplotlib 3.11.
    "Source Han Sans SC",
    "Droid Sans Fallback",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "PingFang SC",
    "PingFang HK",
    "Hiragino Sans GB",
    "Microsoft YaHei",
    "SimHei",
    "Arial Unicode MS",
    "Noto Sans",
    "Symbola",
)
# First word of a character's name, for which Noto Sans CJK is recommended.
_CJK = {
    *("CJK", "IDEOGRAPHIC", "FULLWIDTH", "HALFWIDTH", "BOPOMOFO"),
    *("HIRAGANA", "KATAKANA", "HANGUL"),
}
_MAX_NAMED = 8  # characters in a warning


@contextlib.contextmanager
def fallback_fonts(figure: Any) -> Iterator[None]:
    """Adds fonts to the texts of a figure, for what their own font lacks.

    The figure is to be drawn in this context. If no installed font has a
    character, one warning recommends a font, in place of matplotlib's for each.
    """
    from matplotlib import font_manager
    from matplotlib.text import Text

    texts = figure.findobj(Text)
    characters = {x for text in texts for x in text.get_text()}
    default = font_manager.findfont(font_manager.FontProperties())
    missing = _missing({x for x in characters if x.isprintable()}, default)
    families = []
    for name, path in _installed_fonts() if missing else ():
        left = _missing(missing, path)
        if left != missing:
            families.append(name)
            missing = left
        if not missing:
            break
    for text in texts if families else ():
        text.set_fontfamily([*text.get_fontfamily(), *families])
    with warnings.catch_warnings():
        if missing:
            _logger.warning("%s", _advice(sorted(missing)))
            warnings.filterwarnings("ignore", "Glyph .* missing from")
        yield


def _installed_fonts() -> Iterator[tuple[str, Any]]:
    """Yields the name and the path of each font, the preferred ones first."""
    from matplotlib import font_manager

    manager = font_manager.fontManager
    # matplotlib stores its list, which lacks what was installed since.
    known = {os.path.realpath(font.fname) for font in manager.ttflist}
    for path in font_manager.findSystemFonts():
        if os.path.realpath(path) not in known:
            # As matplotlib does with files that it cannot read.
            with contextlib.suppress(Exception):
                manager.addfont(path)
    # The glyphs of "Last Resort" are boxes.
    paths = {
        font.name: font.fname
        for font in manager.ttflist
        if not font.name.startswith("Last Resort")
    }
    order = {name: number for number, name in enumerate(_PREFERRED)}
    yield from sorted(
        paths.items(), key=lambda item: (order.get(item[0], len(order)), item)
    )


def _missing(characters: set[str], path: Any) -> set[str]:
    """Returns the characters that a font file has no glyph for."""
    from matplotlib import font_manager

    font = font_manager.get_font(path)
    return {x for x in characters if not font.get_char_index(ord(x))}


def _advice(missing: list[str]) -> str:
    names = [unicodedata.name(x, "").partition(" ")[0] for x in missing]
    if _CJK & set(names):
        font = "Noto Sans CJK (Debian's fonts-noto-cjk)"
    elif all(unicodedata.category(x) == "So" for x in missing):
        font = "Symbola (Debian's fonts-symbola)"
    else:
        font = "Noto Sans (Debian's fonts-noto-core)"
    named = "".join(missing[:_MAX_NAMED])
    more = len(missing) - _MAX_NAMED
    others = f" and {more} other characters" if more > 0 else ""
    return (
        f"no installed font has {named}{others}, shown as boxes in the plot; "
        f"install one that does, such as {font}"
    )


# Okabe and Ito's palette for colour-blind readers.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def import_pyplot() -> Any:
    """Imports pyplot, if it is installed, with a backend without display."""
    matplotlib = import_package("matplotlib", "pictures")
    # A notebook keeps its own backend, which shows figures.
    if "matplotlib.pyplot" not in sys.modules:
        matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def has_picture_suffix(path: str | os.PathLike[str]) -> bool:
    """Returns whether a file's name has no suffix or one of a picture."""
    import_pyplot()
    from matplotlib.backend_bases import FigureCanvasBase

    suffix = pathlib.Path(path).suffix.lower()
    known = FigureCanvasBase.get_supported_filetypes()
    return not suffix or suffix[1:] in known


def save_figure(figure: Any, output: str | os.PathLike[str]) -> None:
    """Writes a pyplot figure to a file, and closes it.

    An existing file is replaced when the new one is complete. The suffix of
    `output` selects the format, PNG without one.
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
