"""Tables of what Python knows about code points."""

import dataclasses
import functools
import sys
import unicodedata
from collections.abc import Callable, Iterator

import numpy as np

from albert_tf.text.normalizer import CAPITAL_SIGMA, FINAL_SIGMA

# Values in the table returned by `cases()`.
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
        """Builds the table from values `[0x110000]`, sharing equal pages."""
        values = values.astype(np.int32).reshape(-1, _PAGE)
        numbers: dict[bytes, int] = {}
        pages = [
            numbers.setdefault(page.tobytes(), len(numbers)) for page in values
        ]
        entries = np.frombuffer(b"".join(numbers), np.int32)
        return cls(np.array(pages, np.int32), entries.reshape(-1, _PAGE))


# Special values of `Mappings.mapping_of`: whitespace, and the offset added to
# indices into `rows`. Distances are at most 0x10FFFF in either direction.
WHITESPACE = 1 << 23
ROWS = 1 << 24


@dataclasses.dataclass(frozen=True, eq=False)
class Mappings:
    """The replacement text of each code point under a normalization.

    Attributes:
      mapping_of: for each code point, `WHITESPACE` if `str.split` splits at it;
        the distance to its replacement if that is a single code point;
        otherwise `ROWS` plus the index of its replacement in `rows`.
      rows: the replacements of other lengths; the first is empty.
    """

    mapping_of: CodePointMap
    rows: tuple[str, ...]


def lower_but_sigmas(text: str) -> str:
    """Lower-cases all characters except capital sigmas."""
    parts = text.split(CAPITAL_SIGMA)
    return CAPITAL_SIGMA.join(part.lower() for part in parts)


def tabulate(
    mapping: Callable[[str], str],
    is_whitespace: Callable[[str], bool] = lambda character: False,
) -> Mappings:
    """Tabulates a mapping from characters to strings for all code points.

    It must map a string to itself if it maps each of its characters to itself.
    Characters for which `is_whitespace` is true are mapped to `WHITESPACE`.
    """
    mapping_of = np.zeros(sys.maxunicode + 1, np.int32)
    rows = {"": 0}
    for start, page in _pages():
        first = page[0]
        if _is_uniform(page) and mapping(first) in (first, ""):
            if not mapping(first):
                mapping_of[start : start + _PAGE] = ROWS  # The empty row.
            continue
        # Most other pages are unchanged, such as ideographs.
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
    """Tabulates a function from characters to small integers."""
    values = np.zeros(sys.maxunicode + 1, np.int32)
    for start, page in _pages():
        values[start : start + _PAGE] = (
            number(page[0]) if _is_uniform(page) else list(map(number, page))
        )
    return CodePointMap.from_values(values)


def _pages() -> Iterator[tuple[int, str]]:
    """Yields the first code point and the characters of each page."""
    for start in range(0, sys.maxunicode + 1, _PAGE):
        yield start, "".join(map(chr, range(start, start + _PAGE)))


def _is_uniform(page: str) -> bool:
    """Returns whether tabulated functions treat all characters alike.

    They do if all are unassigned, all private or all surrogates, which is three
    quarters of the pages.
    """
    return set(map(unicodedata.category, page)) in ({"Cn"}, {"Co"}, {"Cs"})


@functools.cache
def cases() -> CodePointMap:
    """Tabulates the case properties that determine the final sigma.

    `str.lower` turns a capital sigma into a final sigma if the nearest
    character before it that is not case-ignorable is cased, and the nearest
    such character after it is not (Unicode, section 3.13, Final_Sigma). Python
    does not expose the two properties, so they are inferred from the result of
    `str.lower` on probes.
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
