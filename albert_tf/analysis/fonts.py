"""Fonts for the characters that the default font of a figure lacks."""

from __future__ import annotations

import contextlib
import logging
import os
import unicodedata
import warnings
from collections.abc import Iterator
from typing import Any

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

    If no installed font has a character, one warning recommends a font, in
    place of matplotlib's for each character.

    Args:
      figure: a pyplot figure, to be drawn in this context.
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
