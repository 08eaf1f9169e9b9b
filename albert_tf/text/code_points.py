"""Unicode tables of Python as arrays, for graphs that must agree with Python.

TensorFlow's ICU has another version of Unicode than Python, and defines
lower-casing and whitespace differently. So graphs do not use ICU: they look up
each code point in tables made from `unicodedata` and `str`.
"""

import dataclasses
import functools
import sys
import unicodedata
from collections.abc import Callable

import numpy as np

CAPITAL_SIGMA = "\u03a3"
FINAL_SIGMA = "\u03c2"
SMALL_SIGMA = "\u03c3"

# Values of the table of `cases()`.
CASED = 1
CASE_IGNORABLE = 2

PAGE_BITS = 7
_PAGE = 1 << PAGE_BITS


@dataclasses.dataclass(frozen=True, eq=False)
class CodePointMap:
    """A two-level table from code points to small integers.

    The value of `c` is `entries[pages[c >> PAGE_BITS], c % 2**PAGE_BITS]`.

    Attributes:
      pages: int32 `[0x110000 >> PAGE_BITS]`.
      entries: int32 `[distinct pages, 2**PAGE_BITS]`.
    """

    pages: np.ndarray
    entries: np.ndarray

    @classmethod
    def from_values(cls, values: np.ndarray) -> "CodePointMap":
        """Builds the table from `[0x110000]` values; equal pages are shared."""
        values = values.astype(np.int32).reshape(-1, _PAGE)
        numbers: dict[bytes, int] = {}
        pages = [
            numbers.setdefault(page.tobytes(), len(numbers)) for page in values
        ]
        entries = np.frombuffer(b"".join(numbers), np.int32)
        return cls(np.array(pages, np.int32), entries.reshape(-1, _PAGE))


# Values of `Mappings.mapping_of`: whitespace, and the offset of indices into
# `rows`.
# Smaller values are distances, of at most 0x10FFFF in either direction.
WHITESPACE = 1 << 23
ROWS = 1 << 24


@dataclasses.dataclass(frozen=True, eq=False)
class Mappings:
    """The text that each code point is mapped to by a normalization.

    Attributes:
      mapping_of: for each code point, `WHITESPACE` if `str.split` splits at it;
        the distance to its mapping if that is one code point; else `ROWS` plus
        the index of its mapping in `rows`.
      rows: the mappings of other lengths; the first is empty.
    """

    mapping_of: CodePointMap
    rows: tuple[str, ...]


def lower_characters(text: str) -> str:
    """Lower-cases each character on its own.

    Only the lower case of the capital sigma depends on its context in
    `str.lower`.
    """
    return text.replace(CAPITAL_SIGMA, SMALL_SIGMA).lower()


def lower_but_sigmas(text: str) -> str:
    """Lower-cases all but capital sigmas, which depend on their context."""
    parts = text.split(CAPITAL_SIGMA)
    return CAPITAL_SIGMA.join(part.lower() for part in parts)


def mapping(
    text: str,
    do_lower_case: bool,
    strip_accents: bool,
    lower_characters_first: bool,
) -> str:
    """Returns `text` decomposed, without accents and lower-cased, as asked.

    A capital sigma that is not lower-cased first is kept.
    """
    if do_lower_case and lower_characters_first:
        text = lower_characters(text)
    if strip_accents:
        text = unicodedata.normalize("NFKD", text)
        text = "".join(c for c in text if not unicodedata.combining(c))
    return lower_but_sigmas(text) if do_lower_case else text


@functools.cache
def mappings(
    do_lower_case: bool, strip_accents: bool, lower_characters_first: bool
) -> Mappings:
    """Tabulates `mapping` and whitespace for every code point."""
    options = (do_lower_case, strip_accents, lower_characters_first)
    return tabulate(lambda text: mapping(text, *options), str.isspace)


def tabulate(
    mapping: Callable[[str], str],
    is_whitespace: Callable[[str], bool] = lambda character: False,
) -> Mappings:
    """Tabulates a function of characters for every code point.

    Args:
      mapping: the function. A string of characters that are all mapped to
        themselves must be mapped to itself.
      is_whitespace: predicate of the characters to map to `WHITESPACE`.
    """
    mapping_of = np.zeros(sys.maxunicode + 1, np.int32)
    rows = {"": 0}
    for start in range(0, sys.maxunicode + 1, _PAGE):
        page = "".join(map(chr, range(start, start + _PAGE)))
        # Most pages are ideographs or unassigned: one comparison is enough.
        if mapping(page) == page and not any(map(is_whitespace, page)):
            continue
        for code_point, character in enumerate(page, start):
            if is_whitespace(character):
                mapping_of[code_point] = WHITESPACE
                continue
            result = mapping(character)
            if len(result) == 1:
                mapping_of[code_point] = ord(result) - code_point
            else:
                row = rows.setdefault(result, len(rows))
                mapping_of[code_point] = ROWS + row
    return Mappings(CodePointMap.from_values(mapping_of), tuple(rows))


def tabulate_numbers(number: Callable[[str], int]) -> CodePointMap:
    """Tabulates a function of characters to small integers."""
    return CodePointMap.from_values(
        np.fromiter(
            map(number, map(chr, range(sys.maxunicode + 1))),
            np.int32,
            sys.maxunicode + 1,
        )
    )


@functools.cache
def cases() -> CodePointMap:
    """Tabulates the case properties that lower-casing a capital sigma needs.

    `str.lower` makes a capital sigma final if the nearest character before it
    that is not case-ignorable is cased, and the nearest such one after it is
    not (Unicode, section 3.13, Final_Sigma). Python does not expose the two
    properties, so they are inferred from the result of `str.lower` on probes.
    """
    values = np.zeros(sys.maxunicode + 1, np.int32)
    # One call for all probes, separated by "\n", which is neither cased nor
    # case-ignorable. Nor are whitespace and unassigned characters.
    probed = [
        c
        for c in map(chr, range(sys.maxunicode + 1))
        if unicodedata.category(c) not in ("Cn", "Co", "Cs") and not c.isspace()
    ]
    code_points = np.fromiter(map(ord, probed), np.int32, len(probed))
    for value, before in ((CASE_IGNORABLE, "A"), (CASED, "")):
        probes = "\n".join(before + c + CAPITAL_SIGMA for c in probed).lower()
        final = np.fromiter(
            (probe.endswith(FINAL_SIGMA) for probe in probes.split("\n")),
            np.bool_,
            len(probed),
        )
        # Cased characters pass both probes; the second overwrites the first.
        values[code_points[final]] = value
    return CodePointMap.from_values(values)
