"""Paragraphs: joined from lines, and split into sentences."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator

import sentencex

from albert_tf.text.word_splitter import UNSPACED_SCRIPTS

# White space before a full stop. After an initial, sentencex 1.0 panics at it.
_WIDE_SPACE = re.compile(
    "[\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000](?=[.])"
)

# Longer paragraphs are segmented in parts: sentencex takes a time that is
# quadratic in the length of Chinese or Japanese text.
_MAX_SEGMENTED = 16_000


def join_lines(lines: list[str]) -> str:
    """Joins the lines of a paragraph by spaces, where its script has them."""
    parts = lines[:1]
    for before, after in itertools.pairwise(lines):
        ends = _script_character(reversed(before)), _script_character(after)
        if not all(map(_is_unspaced, ends)):
            parts.append(" ")
        parts.append(after)
    return "".join(parts)


def _script_character(characters: Iterable[str]) -> str:
    """Returns the first character that tells the script beside a line break.

    Quotation marks, dashes and the like of ambiguous width do not: Chinese and
    Latin texts share them. If there is nothing else, the first one counts.
    """
    first = ""
    for character in characters:
        first = first or character
        is_mark = unicodedata.category(character).startswith("P")
        if not is_mark or unicodedata.east_asian_width(character) != "A":
            return character
    return first


def _is_unspaced(character: str) -> bool:
    """Returns whether a character's script has no spaces between words.

    True for ideographs, kana and their punctuation, which are wide, and for
    some other scripts of Asia. CSS joins lines by the same rule (Text Level 3,
    section 4.1.3).
    """
    if character < "\u0e00":
        return False
    name = unicodedata.name(character, "")
    is_wide = unicodedata.east_asian_width(character) in "FWH"
    if is_wide:
        return "HANGUL" not in name and unicodedata.category(character) != "So"
    return name.startswith(UNSPACED_SCRIPTS)


def split_sentences(language: str, text: str) -> list[str]:
    """Splits a paragraph with the sentencex library; joined, they are the text.

    Args:
      language: ISO 639 code.
      text: the paragraph.
    """
    if text.isascii():
        return list(sentencex.segment(language, text))
    # As many characters as the text has.
    plain = _WIDE_SPACE.sub(" ", text)
    ends = itertools.accumulate(map(len, sentencex.segment(language, plain)))
    return [text[x:y] for x, y in itertools.pairwise([0, *ends])]


def split_paragraph(paragraph: str, language: str) -> Iterator[str]:
    """Yields the sentences of a paragraph of any length, stripped."""
    start, size = 0, _MAX_SEGMENTED
    while start < len(paragraph):
        part = paragraph[start : start + size]
        sentences = split_sentences(language, part)
        end = len(part)
        if start + end < len(paragraph):
            # The last quarter is segmented again, with what follows it: it may
            # have the beginning of a sentence, or of a quotation, which is not
            # split.
            while sentences and end > size * 3 // 4:
                end -= len(sentences.pop())
        yield from map(str.strip, sentences)
        start += end
        size = _MAX_SEGMENTED if sentences else 2 * size
