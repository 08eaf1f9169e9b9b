"""Markdown or reStructuredText that a page of the site shows as it is."""

import html.parser
import re

# Elements that end a line, and those whose text is code.
_LINES = {"p", "li", "td", "th", "dt", "dd", "h1", "h2", "h3", "h4", "br"}
_CODE = {"pre", "code", "script", "style", "svg"}
_RAW = re.compile(
    r"\|\s*:?-{3,}"  # the rule of a table
    r"|^\s*\|.*\|\s*$"  # its rows
    r"|`"
    r"|\]\("  # a link
    r"|\*\*\S[^*\n]*\*\*"
    r"|^\s*#{1,6} \S"
    r"|^\s*[-*] \S"  # an item of a list
    r"|<!--|:\w+:`"
    r"|::$|^\.\. \w+"
    r"|^Example:?\n+(?!\0)\S",  # an example that is not code
    re.MULTILINE,
)


def find_raw_markup(page: str) -> list[str]:
    """Returns the markup in the text of an HTML page, with what follows it."""
    text = _Text()
    text.feed(page)
    shown = "".join(text.parts)
    return [
        " ".join(shown[match.start() : match.end() + 50].split())
        for match in _RAW.finditer(shown)
    ]


class _Text(html.parser.HTMLParser):
    """Collects the text outside of code, for which it puts a zero byte."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.code = 0

    def handle_starttag(self, tag, attributes) -> None:
        self.code += tag in _CODE
        if tag in _LINES:
            self.parts.append("\n")

    def handle_endtag(self, tag) -> None:
        self.code -= tag in _CODE
        if tag in _LINES:
            self.parts.append("\n")

    def handle_data(self, data) -> None:
        self.parts.append("\0" if self.code else data)
